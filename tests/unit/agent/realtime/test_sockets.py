"""Sockets that vanish or stay, keys, and what `/ready` says, over a real socket."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from aiohttp import WSMessage, WSMsgType
from aiortc import RTCConfiguration, RTCPeerConnection

import agent.realtime.socket as watched
from agent.auth import ClientSecrets
from agent.http import HttpOptions
from tests.fakes.engine import FakeEngine
from tests.fakes.server import PATIENCE_S, Server, serving

pytestmark = pytest.mark.unit

STOCK = "/v1/realtime?model=m"


async def vanish(server: Server) -> None:
    """A connection that opens a session and is never heard of again."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(
        b"GET /v1/realtime?model=m HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
        b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    await reader.readuntil(b"session.updated")
    assert server.manager.used == 1
    session = server.manager.sessions[0]
    await asyncio.wait_for(session.wait_closed(), 20)
    writer.close()


async def test_a_vanished_socket_frees_its_slot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # contract: J2
    assert watched.PING_AFTER_S + watched.CUT_AFTER_S == 20.0
    monkeypatch.setattr(watched, "PING_AFTER_S", 0.5)
    monkeypatch.setattr(watched, "CUT_AFTER_S", 2.0)
    async with serving(FakeEngine()) as server:
        await vanish(server)
        assert server.manager.used == 0


async def test_a_socket_that_answers_pings_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # contract: J2
    monkeypatch.setattr(watched, "PING_AFTER_S", 0.05)
    monkeypatch.setattr(watched, "CUT_AFTER_S", 15.0)
    async with serving(FakeEngine()) as server, server.connect(STOCK) as client:
        await client.until("session.updated")
        pings = []
        ping = server.manager.sessions[0]
        waiting = asyncio.create_task(client.event())
        for _ in range(100):
            await asyncio.sleep(0.01)
            pings.append(ping.state)
        assert set(pings) == {"open"}
        await client.send("session.heartbeat")
        event = await waiting
        assert event is not None and event["type"] == "session.heartbeat_ack"


async def test_a_dropped_socket_closes_its_session() -> None:  # contract: J2
    async with serving(FakeEngine()) as server:
        async with server.connect(STOCK) as client:
            await client.until("session.updated")
            session = server.manager.sessions[0]
        await asyncio.wait_for(session.wait_closed(), 20)
        assert server.manager.used == 0


async def test_a_slot_whose_cleanup_fails_is_refused_until_it_is_back() -> None:  # contract: A3
    engine = FakeEngine(max_sessions=1, cleanup_failures=10**9, cleanup_retry_s=0.01)
    async with serving(engine) as server:
        async with server.connect(STOCK) as first:
            await first.until("session.updated")
            await first.send("session.close")
            for _ in range(1000):
                if engine.cleanups >= 2:
                    break
                await asyncio.sleep(0.01)
            async with server.connect(STOCK) as second:
                await second.rest()
                assert second.seen[0]["error"]["code"] == "resource_exhausted"
            engine.cleanup_failures = 0
            await first.rest()
            assert first.types[-1] == "session.closed"
        assert engine.cleanups >= 3
        assert (engine.releases, server.manager.used) == (1, 0)
        async with server.connect(STOCK) as third:
            await third.until("session.updated")


async def test_ready_tells_the_free_slots() -> None:  # contract: A1
    async with serving(FakeEngine(max_sessions=3)) as server:
        await server.manager.warmup(1)
        async with server.connect(STOCK) as client:
            await client.until("session.updated")
            async with server.http.get(server.url + "/ready") as response:
                body = await response.json()
            assert (response.status, body["free_slots"], body["max_sessions"]) == (200, 2, 3)
            async with server.http.get(server.url + "/metrics") as response:
                text = await response.text()
            assert "duplex_sessions 1.0" in text and "duplex_sessions_max 3.0" in text


@pytest.mark.parametrize("how", ["header", "query", "subprotocol"])
async def test_the_ways_to_send_a_key(how: str) -> None:
    options: dict[str, object] = {}
    path = STOCK
    if how == "header":
        options = {"headers": {"Authorization": "Bearer two"}}
    elif how == "query":
        path = STOCK + "&api_key=two"
    else:
        options = {"protocols": ("realtime", "openai-insecure-api-key.two")}
    async with serving(FakeEngine(), HttpOptions(api_keys=("one", "two"))) as server:
        async with server.connect(path, **options) as client:
            await client.until("session.updated")
            assert client.socket.protocol == ("realtime" if how == "subprotocol" else None)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": "Bearer \udcff\udcfe"}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": "Bearer one", "Origin": "http://["}, 403),
        ({"Authorization": "Bearer one"}, 200),
    ],
)
async def test_junk_in_headers_is_refused(headers: dict[str, str], status: int) -> None:
    """Over a raw socket: clients refuse to send such headers."""
    async with serving(FakeEngine(), HttpOptions(api_keys=("one",))) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        lines = ["GET /v1/voices HTTP/1.1", "Host: localhost", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode(errors="surrogateescape"))
        async with asyncio.timeout(PATIENCE_S):
            assert int((await reader.readline()).split()[1]) == status
        writer.close()


def test_a_client_secret_ends_its_own_call_and_no_other() -> None:
    secrets = ClientSecrets()
    mine, _ = secrets.mint(60, {})
    other, _ = secrets.mint(60, {})
    secrets.adopt(mine, "/v1/realtime/calls/rtc_1")
    assert secrets.owns(mine, "/v1/realtime/calls/rtc_1")
    assert secrets.owns(mine, "/v1/realtime/calls/rtc_1/hangup")
    assert not secrets.owns(other, "/v1/realtime/calls/rtc_1")
    assert not secrets.owns("", "/v1/realtime/calls/rtc_2")
    secrets.release("/v1/realtime/calls/rtc_1")
    assert not secrets.owns(mine, "/v1/realtime/calls/rtc_1")


async def test_calls_of_a_client_secret_can_be_hung_up_with_it() -> None:
    options = HttpOptions(api_keys=("one",))
    async with serving(FakeEngine(), options) as server:
        call, statuses = server.url + "/v1/realtime/calls", []
        secrets = [await minted(server), await minted(server)]
        bearers = [{"Authorization": f"Bearer {secret}"} for secret in secrets]
        peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        peer.addTransceiver("audio")
        await peer.setLocalDescription(await peer.createOffer())
        offer = {"data": peer.localDescription.sdp, "headers": {"Content-Type": "application/sdp"}}
        offer["headers"] |= bearers[0]
        async with server.http.post(call, **offer) as response:
            path = server.url + response.headers["Location"]
        for bearer in (bearers[1], bearers[0]):
            async with server.http.delete(path, headers=bearer) as response:
                statuses.append(response.status)
        await peer.close()
        assert statuses == [401, 204]


async def minted(server: Server) -> str:
    url = server.url + "/v1/realtime/client_secrets"
    async with server.http.post(url, headers={"Authorization": "Bearer one"}) as response:
        return str((await response.json())["value"])


class Flooded:
    """A websocket with so many messages that have arrived already."""

    def __init__(self, count: int) -> None:
        self.left = count

    def __aiter__(self) -> Flooded:
        return self

    async def __anext__(self) -> WSMessage:
        if not self.left:
            raise StopAsyncIteration
        self.left -= 1
        return WSMessage(WSMsgType.TEXT, "{}", "")


async def test_others_get_a_turn_after_each_message_of_a_flood() -> None:
    request, flood = SimpleNamespace(transport=None), Flooded(100)
    socket = watched.WatchedSocket(request, flood)  # type: ignore[arg-type]
    turns, done = 0, asyncio.Event()

    async def another_call() -> None:
        nonlocal turns
        while not done.is_set():
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(another_call())
    assert len([message async for message in socket.messages()]) == 100
    done.set()
    await other
    assert turns >= 100
