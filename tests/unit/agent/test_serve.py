"""The order in which serving starts, and what it does to the process around it."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from agent.manager import SessionManager
from agent.serve import NOTHING_TO_SAY, STOPPED, serve, settle_memory
from agent.settings import Settings
from agent.tally import RoomTally
from model import PrefillUnavailable
from tests.fakes.engine import FakeEngine

pytestmark = pytest.mark.unit
LOADED = 200_000
A_CALL, CALLS, AT_ONCE = 300, 100, 4
PASSING = 20
"""Objects for each that stays until the call's end."""


def test_what_calls_leave_behind_is_still_collected() -> None:
    """However much was loaded before, and though cycles of a call outlive the young collections."""
    loaded = [[number] for number in range(LOADED)]
    try:
        settle_memory()
        before = gc.get_stats()[2]["collections"]
        calls: list[object] = []
        for number in range(CALLS):
            calls.extend(cycles(PASSING)[0] for _ in range(A_CALL))
            if number % AT_ONCE == 0:
                calls.clear()
        assert gc.get_stats()[2]["collections"] > before
        lists = [kept for kept in gc.get_objects() if type(kept) is list and len(kept) == 1]
        left = sum(kept[0] is kept for kept in lists)
        assert left < A_CALL * CALLS / 2
    finally:
        gc.unfreeze()
    assert len(loaded) == LOADED


def cycles(count: int) -> list[list[object]]:
    """Lists that hold themselves, so that only a collection frees them."""
    made: list[list[object]] = [[] for _ in range(count)]
    for itself in made:
        itself.append(itself)
    return made


@dataclass
class Registers:
    """Stands where the worker stands: it notes what it finds, registers, and has had enough."""

    settings: Settings
    manager: SessionManager
    rules: object
    tally: RoomTally = field(default_factory=RoomTally)

    def has_room(self, name: str) -> bool:
        return False

    async def run(self, registered: Callable[[], None]) -> None:
        logging.getLogger(__name__).info("ready %s", self.manager.ready)
        registered()

    async def drain(self) -> None: ...

    async def aclose(self) -> None: ...


@pytest.mark.parametrize("fails", [False, True])
def test_the_worker_registers_after_the_warm_up(
    fails: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:  # contract: J1
    """And all the same where that fails; its slot is free, be it the only one."""
    monkeypatch.setattr("agent.serve.Worker", Registers)
    caplog.set_level(logging.INFO)
    seen: list[tuple[int, int]] = []

    async def scene() -> None:
        engine = FakeEngine(max_sessions=1)
        if fails:
            engine.bind = failing  # type: ignore[method-assign]
        with socket.create_server(("127.0.0.1", 0)) as listener:

            def announce(settings: Settings) -> None:
                seen.append((len(engine.stepped), engine.stats().used))

            code = await serve(Settings(), engine, listener, announce, NOTHING_TO_SAY)
        assert code == STOPPED

    try:
        asyncio.run(scene())
    finally:
        gc.unfreeze()
    assert seen == [(0 if fails else Settings().warmup_frames, 0)]
    told = [line for line in caplog.messages if line.startswith(("warm-up", "ready"))]
    assert told[-1] == "ready True"
    assert [line.split(",")[0] for line in told[:-1]] == ["warm-up failed"] * fails


def failing(*_: Any) -> None:
    raise PrefillUnavailable("the voice file cannot be read")
