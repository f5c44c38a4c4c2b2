"""A room's call whose job is cancelled, at any point and once more while it ends."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from livekit import rtc

from agent.policy import ROOM
from agent.room import RoomCall, RoomRules
from tests.fakes.engine import FakeEngine
from tests.unit.agent.cancelling import AGAIN, Noting, cancelled, played

pytestmark = pytest.mark.unit

RULES = RoomRules(heard="all", resume_grace=10.0, max_call_duration=3600.0)
FOREVER = {"joining": "connect", "publishing": "publish_track", "withdrawing": "unpublish_track"}


class Source:
    """What is used of `rtc.AudioSource`, without its thread."""

    def __init__(self, *_: object, **__: object) -> None:
        self.closed = False

    async def capture_frame(self, frame: rtc.AudioFrame) -> None:
        await asyncio.sleep(0.08)

    def clear_queue(self) -> None: ...

    async def aclose(self) -> None:
        self.closed = True


class Place:
    """A room that nobody else is in, one step of which may take for ever."""

    def __init__(self, slow: str | None) -> None:
        self.waiting = False
        self.remote_participants: dict[str, Any] = {}
        self.local_participant = self
        self._slow = slow

    async def _step(self, name: str) -> Any:
        if name == self._slow:
            self.waiting = True
            await asyncio.Event().wait()
        return SimpleNamespace(sid="TR_one")

    def on(self, event: str, callback: object) -> None: ...

    def isconnected(self) -> bool:
        return True

    async def connect(self) -> None:
        await self._step("connect")

    async def publish_track(self, *_: object) -> Any:
        return await self._step("publish_track")

    async def unpublish_track(self, sid: str) -> None:
        await self._step("unpublish_track")

    async def set_attributes(self, attributes: dict[str, str]) -> None:
        await self._step("set_attributes")

    async def publish_data(self, *_: object, **__: object) -> None:
        await self._step("publish_data")

    async def stream_text(self, **_: object) -> Any:
        await self._step("stream_text")
        raise ConnectionError("this room takes no text")


class Scene:
    """One call, up to where it is cancelled."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.engine = FakeEngine(cleanup_failures=where == "the slot is late")
        self.manager = Noting(self.engine)
        slow = {**FOREVER, "saying goodbye": "publish_data"}.get(where)
        self.room: Any = Place(slow)
        self.call = RoomCall(self.room, RULES, lambda sink: self.manager.open(ROOM, sink))

    def here(self) -> bool:
        if self.where in ("joining", "publishing"):
            return bool(self.room.waiting)
        self.call._guests.answered.set()
        session = self.call.session
        if not session.counters.emitted:
            return False
        if self.where == "talking":
            return True
        self.call.close("room_deleted")
        if self.where == "withdrawing":
            return bool(self.room.waiting)
        return session.state == ("closing" if self.where == "the slot is late" else "closed")


@pytest.mark.parametrize("again", AGAIN)
@pytest.mark.parametrize("where", [*FOREVER, "talking", "the slot is late", "saying goodbye"])
def test_a_cancelled_call_leaves_nothing(
    where: str, again: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:  # contract: J2
    monkeypatch.setattr(rtc, "AudioSource", Source)
    monkeypatch.setattr(rtc.LocalAudioTrack, "create_audio_track", lambda *_: None)

    async def play() -> None:
        scene = Scene(where)
        await cancelled(scene.call.run(scene.room.connect), scene.manager, scene.here, again)
        assert len(scene.manager.ends) == 1
        assert scene.call._source.closed  # type: ignore[attr-defined]

    played(play())
