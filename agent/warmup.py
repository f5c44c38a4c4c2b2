"""Warm-up: silence frames through a session of the server's own, as a client would send them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from agent.errors import SessionError
from agent.policy import WARMUP
from agent.session import SILENCE
from agent.sink import OutputFrame, ResponseEnd, ResponseInfo

if TYPE_CHECKING:
    from agent.manager import SessionManager

TIMEOUT_S = 150.0


class _Listener:
    """A sink that waits for the last frame, or for the reason why none comes."""

    def __init__(self, frames: int) -> None:
        self._missing = frames
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def bound(self, epoch: int, prefill_positions: int) -> None:
        """Nothing to do: frames follow by themselves."""

    def response_started(self, response: ResponseInfo) -> None:
        """Nothing to do: only frames count."""

    def response_done(self, end: ResponseEnd) -> None:
        """Nothing to do: only frames count."""

    def output(self, frame: OutputFrame) -> None:
        self._missing -= 1
        if self._missing == 0 and not self.done.done():
            self.done.set_result(None)

    def error(self, error: SessionError) -> None:
        if not self.done.done():
            self.done.set_exception(error)

    def closed(self, reason: str, expired: bool) -> None:
        if not self.done.done():
            self.done.set_exception(SessionError("call_failed", f"closed: {reason}"))


async def warm_up(manager: SessionManager, frames: int) -> None:
    """Raise `SessionError` or `TimeoutError` where the frames do not come back."""
    if frames <= 0:
        return
    listener = _Listener(frames)
    session = manager.open(WARMUP, listener)
    try:
        for _ in range(frames):
            session.push_frame(SILENCE)
        await asyncio.wait_for(listener.done, TIMEOUT_S)
    finally:
        session.close("warmup")
        await session.wait_closed()
