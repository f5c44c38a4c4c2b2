"""The tasks of websockets and WebRTC calls, cancelled at any point and once more while they end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from aiortc import RTCPeerConnection

from agent.auth import ClientSecrets
from agent.realtime.calls import Call, Calls
from agent.realtime.config import Limits
from agent.realtime.moshi import serve_chat
from agent.realtime.socket import WatchedSocket
from agent.realtime.track import AgentTrack
from agent.realtime.websocket import RealtimeSocket
from agent.session import Session
from model import SessionSpec
from tests.fakes.engine import FakeEngine
from tests.fakes.server import silence
from tests.unit.agent.cancelling import AGAIN, Noting, cancelled, played
from tests.unit.agent.realtime.deaf import Deaf, Watched

pytestmark = pytest.mark.unit

NAMES_A_VOICE = {"type": "session.update", "session": {"voice": "NATM1.pt"}}


class Slow(FakeEngine):
    """Prepares no voice before it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.preparing: list[Future[int]] = []

    def prepare(self, spec: SessionSpec) -> Future[int]:
        self.preparing.append(Future())
        return self.preparing[-1]


class Scene:
    """One connection, up to where it is cancelled."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.engine = self._engine()
        self.manager = Noting(self.engine)
        self.limits = Limits(self.manager.engine.voices, self.manager.default_spec)
        self.socket = Deaf()
        if where != "nobody reads":
            self.socket.read.set()
        says = [NAMES_A_VOICE] if where == "preparing" else []
        self.watched = Watched(self.socket, *says)

    def _engine(self) -> FakeEngine:
        if self.where == "preparing":
            return Slow()
        if self.where == "prefilling":
            return FakeEngine(prefill_s=60.0)
        return FakeEngine(cleanup_failures=self.where == "the slot is late")

    def here(self) -> bool:
        """Whether the connection has come to where it is cancelled; it goes on if it has not."""
        if self.where == "opening":
            return self.watched.listening
        if not self.manager.known or not self.watched.listening:
            return False
        session = self.manager.known[0]
        if isinstance(self.engine, Slow):
            return bool(self.engine.preparing)
        if not session.counters.accepted:
            session.append(silence())
        return self._is_far_enough(session)

    def _is_far_enough(self, session: Session) -> bool:
        if self.where == "prefilling":
            return session.busy
        if not session.counters.emitted:
            return False
        if self.where == "reading":
            return True
        self.socket.gone.set()
        return session.state == ("closed" if self.where == "nobody reads" else "closing")

    def ended(self) -> None:
        """One end where there was a session, and the client was told once if it listened."""
        opened = self.where != "opening"
        assert self.manager.ends == ["disconnect"] * opened
        told = [one for one in self.socket.sent if '"session.closed"' in str(one)]
        assert len(told) == (self.where in ("prefilling", "reading", "the slot is late"))
        assert self.watched.aborted
        if isinstance(self.engine, Slow):
            assert all(future.cancelled() for future in self.engine.preparing)


ENDING = ["the slot is late", "nobody reads"]


@pytest.mark.parametrize("again", AGAIN)
@pytest.mark.parametrize("where", ["opening", "preparing", "prefilling", "reading", *ENDING])
def test_a_cancelled_websocket_leaves_nothing(
    where: str, again: int | None
) -> None:  # contract: J2
    async def play() -> None:
        scene = Scene(where)
        query = {} if where in ("opening", "preparing") else {"model": "m"}
        request: Any = SimpleNamespace(path="/v1/duplex", query=query)

        async def handler() -> None:
            watched: Any = scene.watched
            await RealtimeSocket(watched, scene.manager, scene.limits, None).serve(request)

        await cancelled(handler(), scene.manager, scene.here, again)
        scene.ended()

    played(play())


@pytest.mark.parametrize("again", AGAIN)
@pytest.mark.parametrize("where", ["prefilling", "reading", *ENDING])
def test_a_cancelled_chat_leaves_nothing(
    where: str, again: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:  # contract: J2
    async def play() -> None:
        scene = Scene(where)

        async def accept(request: object) -> Watched:
            return scene.watched

        monkeypatch.setattr(WatchedSocket, "accept", accept)
        request: Any = SimpleNamespace(query={})
        handler = serve_chat(request, scene.manager, scene.limits)
        await cancelled(handler, scene.manager, scene.here, again)
        assert scene.manager.ends == ["disconnect"] and scene.watched.aborted

    played(play())


class Peers:
    """One WebRTC call, one step of which takes for ever."""

    def __init__(self, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.where = where
        self.engine = FakeEngine(cleanup_failures=where == "the slot is late")
        self.manager = Noting(self.engine)
        self.limits = Limits(self.manager.engine.voices, self.manager.default_spec)
        self.calls = Calls(self.manager, self.limits, ClientSecrets())
        self.waiting = False
        step = {"negotiating": "setRemoteDescription", "the peer is late": "close"}.get(where)
        if step is not None:
            monkeypatch.setattr(RTCPeerConnection, step, self._for_ever)

    async def _for_ever(self, *_: object) -> None:
        self.waiting = True
        await asyncio.Event().wait()

    async def handler(self) -> None:
        """An offer's, or that of a call which talks."""
        if self.where == "negotiating":
            await self.calls.create(Offer())  # type: ignore[arg-type]
        call = Call(self.manager, self.limits)
        await call.connection.open({}, explicit=False)
        call._on_track(AgentTrack())
        await self.calls._watch(call)

    def here(self) -> bool:
        if self.where == "negotiating":
            return self.waiting
        if not self.manager.known or not self.manager.known[0].counters.emitted:
            return False
        if self.where == "the peer is late":
            self.manager.known[0].close("client_close")
            return self.waiting
        return True


class Offer:
    """The request that opens a call."""

    content_type = "application/sdp"
    query: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}

    async def read(self) -> bytes:
        return b"v=0\r\na=fingerprint:sha-256 00\r\n"


@pytest.mark.parametrize("again", AGAIN)
@pytest.mark.parametrize(
    "where", ["negotiating", "talking", "the slot is late", "the peer is late"]
)
def test_a_cancelled_webrtc_call_leaves_nothing(
    where: str, again: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:  # contract: J2
    async def play() -> None:
        peers = Peers(where, monkeypatch)
        await cancelled(peers.handler(), peers.manager, peers.here, again)
        assert len(peers.manager.ends) == 1

    played(play())
