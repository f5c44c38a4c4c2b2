"""WebRTC calls: what they are, a bug behind the data channel, and peers that are gone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from av import AudioFrame

import agent.realtime.calls as calls
from agent.manager import SessionManager
from agent.policy import STOCK
from agent.realtime.calls import LOOK_EVERY_S, MAX_CANDIDATES, VANISHED_S, Call
from agent.realtime.config import Limits
from agent.realtime.connection import Connection
from agent.realtime.track import AgentTrack
from tests.conftest import SEED
from tests.fakes.clock import run
from tests.fakes.engine import FakeEngine
from tests.fakes.server import PATIENCE_S, Server, serving
from tests.unit.agent.capability_values import OF_A_SESSION
from tests.unit.agent.realtime.offers import good_offer, many_candidates, no_audio
from tests.unit.agent.session.calls import frames

pytestmark = pytest.mark.unit


async def opened() -> tuple[Call, SessionManager]:
    manager = SessionManager(FakeEngine())
    call = Call(manager, Limits(manager.engine.voices, manager.default_spec))
    await call.connection.open({}, explicit=False)
    return call, manager


async def test_a_bug_behind_a_data_channel_ends_only_its_call(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    call, manager = await opened()

    def broken(self: Connection, event: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Connection, "_handle", broken)
    call._on_message('{"type": "session.heartbeat"}')
    await asyncio.wait_for(call.ended.wait(), 20)
    assert '"internal_error"' in call._waiting[-2] and '"session.closed"' in call._waiting[-1]
    assert "ZeroDivisionError" in caplog.text and manager.used == 0
    await call.end("closed")


async def test_a_bug_behind_the_microphone_ends_only_its_call(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(AgentTrack):
        async def recv(self) -> AudioFrame:
            raise ZeroDivisionError

    call, manager = await opened()
    call._on_track(Broken())
    await asyncio.wait_for(call.ended.wait(), PATIENCE_S)
    assert '"internal_error"' in call._waiting[-2] and "ZeroDivisionError" in caplog.text
    await call.end("closed")
    assert manager.used == 0


def test_a_peer_is_gone_when_no_packet_comes_any_more() -> None:  # contract: J2
    assert VANISHED_S + LOOK_EVERY_S <= 20

    async def scene() -> None:
        call, _ = await opened()
        session = call.connection.session
        assert session is not None
        session.append(frames(1))
        packets = 0

        async def stats() -> dict[str, Any]:
            return {"one": SimpleNamespace(type="transport", packetsReceived=packets)}

        call.peer.getStats = stats  # type: ignore[method-assign, assignment]
        for _ in range(20):
            packets += 1
            await asyncio.sleep(LOOK_EVERY_S)
            await call.look()
        assert session.state == "open"
        started = asyncio.get_running_loop().time()
        while session.state == "open":
            await asyncio.sleep(LOOK_EVERY_S)
            await call.look()
        silent_s = asyncio.get_running_loop().time() - started
        assert silent_s == pytest.approx(VANISHED_S, abs=LOOK_EVERY_S)
        await call.end("closed")

    run(scene())


async def test_peers_that_never_connect_fill_the_server_like_others() -> None:  # contract: A1, A2
    async with serving(FakeEngine(max_sessions=2)) as server:
        offer, answers = await offered(), []
        for _ in range(3):
            async with server.http.post(server.url + "/v1/realtime/calls", **offer) as response:
                answers.append((response.status, await response.text()))
        assert [status for status, _ in answers] == [201, 201, 503]
        assert "Retry-After" in response.headers
        error = json.loads(answers[-1][1])["error"]
        assert (error["code"], error["current"], error["maximum"]) == ("resource_exhausted", 2, 2)
        assert server.manager.used == 2


async def test_a_call_whose_peer_never_ends_closing_is_over_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The WebRTC library, which failed to close once, waits for ever when it is asked again."""
    monkeypatch.setattr(calls, "CLOSE_PATIENCE_S", 0.01)
    call, manager = await opened()
    monkeypatch.setattr(call.peer, "close", asyncio.Event().wait)
    async with asyncio.timeout(PATIENCE_S):
        await call.end("closed")
        await call.end("shutdown")
    assert manager.used == 0


async def refused(server: Server, offer: str) -> str:
    """The message with which this offer is refused; no slot is kept for it."""
    url, headers = server.url + "/v1/realtime/calls", {"Content-Type": "application/sdp"}
    async with server.http.post(url, data=offer, headers=headers) as response:
        error = (await response.json())["error"]
        assert (response.status, error["code"]) == (400, "invalid_sdp")
    assert server.manager.used == 0
    return str(error["message"])


async def test_an_offer_without_sound_is_refused() -> None:
    """The parts that are left have no transport, and the WebRTC library cannot close them."""
    async with serving(FakeEngine()) as server:
        offer = no_audio(await good_offer("audio"), Random(SEED))
        assert "one audio track" in await refused(server, offer)


async def test_an_offer_of_very_many_candidates_is_refused_before_they_are_paired() -> None:
    async with serving(FakeEngine()) as server:
        offer = many_candidates(await good_offer("audio"), Random(SEED))
        assert str(MAX_CANDIDATES) in await refused(server, offer)


@pytest.mark.parametrize("query", ["", "?model=m&duplex=1"])
async def test_a_call_is_of_stock_mood(query: str) -> None:  # contract: F1 F2
    """Connected over loopback; the client is told so on the data channel."""
    async with serving(FakeEngine()) as server, connected(server, query) as told:
        async with asyncio.timeout(PATIENCE_S):
            created = json.loads(await told.get())
        assert created["type"] == "session.created"
        session = created["session"]
        assert session["capabilities"] == {**OF_A_SESSION, "mood": "stock"}
        assert session["cancel_mode"] == "soft"
        assert server.manager.sessions[0].policy == STOCK


@asynccontextmanager
async def connected(server: Server, query: str) -> AsyncIterator[asyncio.Queue[str]]:
    """A peer that says nothing, and what it is told on its data channel."""
    peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    told: asyncio.Queue[str] = asyncio.Queue()
    try:
        peer.addTransceiver("audio")
        peer.createDataChannel("oai-events").on("message", told.put_nowait)
        await peer.setLocalDescription(await peer.createOffer())
        url, offer = f"{server.url}/v1/realtime/calls{query}", peer.localDescription.sdp
        headers = {"Content-Type": "application/sdp"}
        async with server.http.post(url, data=offer, headers=headers) as response:
            answer = RTCSessionDescription(await response.text(), "answer")
        await peer.setRemoteDescription(answer)
        yield told
    finally:
        await peer.close()


async def offered() -> dict[str, Any]:
    """A request with an offer of a peer that will not be there."""
    peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    peer.addTransceiver("audio")
    await peer.setLocalDescription(await peer.createOffer())
    offer = peer.localDescription.sdp
    await peer.close()
    return {"data": offer, "headers": {"Content-Type": "application/sdp"}}


async def test_a_peer_that_never_connects_frees_its_slot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # contract: J2
    monkeypatch.setattr(calls, "LOOK_EVERY_S", 0.02)
    monkeypatch.setattr(calls, "VANISHED_S", 0.1)
    async with serving(FakeEngine()) as server:
        offer = await offered()
        async with server.http.post(server.url + "/v1/realtime/calls", **offer) as response:
            assert response.status == 201
        for session in server.manager.sessions:
            await asyncio.wait_for(session.wait_closed(), PATIENCE_S)
        assert server.manager.used == 0
