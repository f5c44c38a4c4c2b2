"""Cancels a transport's own task where a test says, and sees what that leaves behind."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any

from agent.manager import SessionManager
from agent.policy import Policy
from agent.session import Session
from agent.sink import Sink
from model import SessionSpec
from tests.fakes.clock import run
from tests.fakes.waiting import until

AGAIN = (None, 0, 1, 2, 5)
"""Turns of the loop from one cancellation to a second one; none: there is no second one."""


class Noting(SessionManager):
    """Keeps its sessions, and every end that their sinks are told of."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.known: list[Session] = []
        self.ends: list[str] = []

    def open(self, policy: Policy, sink: Sink, spec: SessionSpec | None = None) -> Session:
        session = super().open(policy, sink, spec)
        self.known.append(session)
        closed = sink.closed

        def note(reason: str, expired: bool) -> None:
            self.ends.append(reason)
            closed(reason, expired)

        sink.closed = note  # type: ignore[method-assign]
        return session


def played(scene: Coroutine[Any, Any, None]) -> None:
    """Run the scene in virtual time; what was there before is no garbage of it."""
    gc.freeze()
    try:
        run(scene)
    finally:
        gc.unfreeze()


async def cancelled(
    handler: Coroutine[Any, Any, Any],
    manager: Noting,
    here: Callable[[], bool],
    again: int | None,
) -> None:
    """Cancel the handler once it is here; afterwards there is no task, no slot, no open session."""
    complaints: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(context["message"]))
    before = asyncio.all_tasks()
    task = loop.create_task(handler)
    await until(here)
    task.cancel()
    if again is not None:
        for _ in range(again):
            await asyncio.sleep(0)
        task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    left = asyncio.all_tasks() - before - {task}
    assert not left
    assert manager.used == 0 and not manager.sessions
    assert all(session.state == "closed" for session in manager.known)
    assert len(manager.ends) == len(manager.known)
    del task
    gc.collect()
    await asyncio.sleep(0)
    assert not complaints
