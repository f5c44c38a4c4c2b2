"""One call in a room, between its session and its speaker."""

from __future__ import annotations

import asyncio
from typing import cast

import numpy as np
import pytest
from livekit import rtc

from agent.errors import SessionError
from agent.manager import SessionManager
from agent.policy import ROOM
from agent.room import RoomCall, RoomRules
from model import FRAME_SAMPLES
from tests.fakes.clock import run
from tests.fakes.engine import FakeEngine, quiet, talkative

pytestmark = pytest.mark.unit
FRAMES = 3


class Source:
    """In the place of the native one, which no call of these tests plays to."""

    def __init__(self) -> None:
        self.cleared = 0

    def clear_queue(self) -> None:
        self.cleared += 1


# contract: E2
def test_a_refused_cancel_takes_nothing_from_the_ear_and_an_accepted_one_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = Source()
    monkeypatch.setattr(rtc, "AudioSource", lambda *_, **__: source)

    async def main() -> None:
        engine = FakeEngine(1, quiet)
        room, rules = cast(rtc.Room, rtc.EventEmitter[str]()), RoomRules("all", 10, 3600)
        call = RoomCall(room, rules, lambda sink: SessionManager(engine).open(ROOM, sink))
        await made(call, FRAMES)
        with pytest.raises(SessionError) as refused:
            call.cancel()
        assert refused.value.code == "response_not_active"
        assert waiting(call) == (FRAMES, 0) and source.cleared == 0

        engine.script = talkative
        await made(call, 1)
        call.cancel()
        assert waiting(call) == (0, FRAMES + 1) and source.cleared == 1

    run(main())


async def made(call: RoomCall, frames: int) -> None:
    """So many frames more, which nobody plays."""
    for _ in range(frames):
        call.session.push_frame(np.zeros(FRAME_SAMPLES, np.float32))
        await asyncio.sleep(0.1)


def waiting(call: RoomCall) -> tuple[int, int]:
    """Frames that wait for the source, and those that a cancel took."""
    speaker = call.counts()["speaker"]
    return speaker["unplayed"], speaker["cleared"]
