"""Every error code, caused over a real socket: its type, the echoed id, and what becomes of it.

What becomes of the session is seen and compared with what the table says: a code stands in one of
the two tables of `causes.py`, or a test names it by the mark `causes` and has to have compared it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest

import agent.realtime.websocket as websocket
from agent.errors import CODES, SessionError
from agent.http import HttpOptions
from agent.realtime.connection import Connection
from agent.realtime.events import MAX_PARTS
from model import FRAME_SAMPLES, CallFailed, Handle, PrefillUnavailable, SessionSpec
from tests.fakes.engine import FakeEngine, talkative
from tests.fakes.server import Client, Server, serving, silence
from tests.fakes.told import Outcome, Told
from tests.unit.agent.realtime.causes import AT_OPEN, GOES_ON

pytestmark = pytest.mark.unit

DUPLEX = "/v1/realtime?duplex=1&model=m&autostart=0"
STOCK = "/v1/realtime?model=m"


@pytest.fixture
def told(request: pytest.FixtureRequest) -> Iterator[Told]:
    """A test that is marked to cause codes has compared them all."""
    told = Told()
    yield told
    assert told.codes >= _caused(request.node.iter_markers())


def _caused(marks: Iterable[pytest.Mark]) -> set[str]:
    return {code for mark in marks if mark.name == "causes" for code in mark.args}


async def opened(server: Server, client: Client, **session: Any) -> None:
    await client.send("session.update", session=session)
    await client.until("session.updated")


AS_FIRST = [code for code in GOES_ON if CODES[code].ends == "no"]
"""What never ends a session does not when it is the first message, which opens one, either."""


@pytest.mark.parametrize(
    ("code", "first"), [*((code, False) for code in GOES_ON), *((code, True) for code in AS_FIRST)]
)
async def test_refused_and_the_session_goes_on(code: str, first: bool, told: Told) -> None:
    engine = FakeEngine()
    async with serving(engine) as server, server.connect(DUPLEX) as client:
        if not first:
            await opened(server, client, model="m")
        await GOES_ON[code](client, server)
        await told.goes_on(client, code, "evt_x")
        engine.step_s = 0.001
        await client.append(silence())
        await client.until("response.output_audio.delta")
        await client.send("session.close")
        await client.until("session.closed")


@pytest.mark.parametrize("code", AT_OPEN)
async def test_refused_at_open_and_the_socket_ends(code: str, told: Told) -> None:
    engine = FakeEngine()
    async with serving(engine) as server, server.connect(DUPLEX) as client:
        message = AT_OPEN[code]
        await client.socket.send_json(message | {"event_id": "evt_x"})
        await told.refused(client, code, "evt_x")
        assert engine.stats().used == 0


@pytest.mark.causes("prefill_unavailable")
async def test_prefill_unavailable_is_said_at_open(told: Told) -> None:  # contract: B6
    engine = FakeEngine()

    def unreadable(spec: SessionSpec) -> Future[int]:
        future: Future[int] = Future()
        future.set_exception(PrefillUnavailable("the voice file cannot be read"))
        return future

    engine.prepare = unreadable  # type: ignore[method-assign]
    async with serving(engine) as server, server.connect(DUPLEX) as client:
        await client.send("session.update", event_id="evt_x", session={"voice": "NATM1.pt"})
        await told.refused(client, "prefill_unavailable", "evt_x")
        assert engine.stats().used == 0


class Late(FakeEngine):
    """Audio comes before it has found out that this voice and persona cannot be prepared."""

    def __init__(self, code: str) -> None:
        super().__init__()
        self._code = code

    def prepare(self, spec: SessionSpec) -> Future[int]:
        return Future()

    def bind(self, handle: Handle, spec: SessionSpec) -> None:
        if spec.voice not in self.voices:
            super().bind(handle, spec)
        self._deliver(self._calls[handle.slot], CallFailed(0, self._code, "impossible"))


AT_BINDING: dict[str, tuple[str, dict[str, Any]]] = {
    "invalid_voice": ("/v1/realtime?duplex=1&model=m", {"voice": "nobody.pt"}),
    "prompt_too_long": (STOCK, {"instructions": "x" * 2000}),
    "prefill_unavailable": (STOCK, {"instructions": "You are a pirate."}),
}


@pytest.mark.parametrize("code", AT_BINDING)
async def test_an_update_that_audio_overtakes_ends_the_session(code: str, told: Told) -> None:
    """contract: B2 B6 J2"""
    path, session = AT_BINDING[code]
    engine = Late(code)
    async with serving(engine) as server, server.connect(path) as client:
        await client.until("session.updated")
        await client.send("session.update", session=session)
        await client.append(silence())
        await told.ended(client, code)
        assert client.seen[-1]["reason"] == code and engine.stats().used == 0


@pytest.mark.causes("config_timeout")
async def test_silent_socket_times_out(monkeypatch: pytest.MonkeyPatch, told: Told) -> None:
    monkeypatch.setattr(websocket, "FIRST_MESSAGE_S", 0.05)
    async with serving(FakeEngine()) as server, server.connect(DUPLEX) as client:
        await told.refused(client, "config_timeout")


@pytest.mark.causes("invalid_json")
@pytest.mark.parametrize("path", [DUPLEX, STOCK])
@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "7",
        '{"type": NaN}',
        '{"type": "session.update", "session": {"speed": 1e999}}',
        '{"a":' * 100 + "1" + "}" * 100,
        '{"type":' + "9" * 5000 + "}",
        b"{}",
    ],
)
async def test_invalid_json(text: str | bytes, path: str, told: Told) -> None:
    async with serving(FakeEngine()) as server, server.connect(path) as client:
        if isinstance(text, bytes):
            await client.socket.send_bytes(text)
        else:
            await client.socket.send_str(text)
        await told.goes_on(client, "invalid_json")


@pytest.mark.causes("event_too_large")
@pytest.mark.parametrize("path", [DUPLEX, STOCK])
async def test_event_too_large_and_the_connection_stays(path: str, told: Told) -> None:
    async with serving(FakeEngine()) as server, server.connect(path) as client:
        await client.send("input_audio_buffer.append", audio="A" * (15 * 1024 * 1024 + 1))
        await told.goes_on(client, "event_too_large")


@pytest.mark.parametrize("small", ["[],", '{"":0},', "0,"])
async def test_an_event_of_very_many_values_is_too_large_whatever_its_bytes(
    small: str, told: Told
) -> None:
    many = small * MAX_PARTS + "0"
    async with serving(FakeEngine()) as server, server.connect(STOCK) as client:
        await client.socket.send_str('{"type": "session.heartbeat", "x": [' + many + "]}")
        await told.goes_on(client, "event_too_large")


@pytest.mark.causes("resource_exhausted")
@pytest.mark.parametrize("path", [DUPLEX, STOCK])
async def test_one_too_many_is_refused_with_1013(path: str, told: Told) -> None:  # contract: A2
    async with serving(FakeEngine(max_sessions=1)) as server, server.connect(STOCK) as first:
        await first.until("session.updated")
        async with server.connect(path) as client:
            await client.send("session.update", session={})
            error = await told.refused(client, "resource_exhausted", close_code=1013)
            assert (error["current"], error["maximum"]) == (1, 1)


@pytest.mark.causes("server_draining")
async def test_a_draining_server_refuses(told: Told) -> None:  # contract: J3
    async with serving(FakeEngine()) as server:
        server.manager.begin_drain()
        async with server.connect(STOCK) as client:
            await told.refused(client, "server_draining", close_code=1013)
        async with server.http.get(server.url + "/ready") as response:
            assert response.status == 503


@pytest.mark.causes("call_failed")
@pytest.mark.parametrize("code", ["call_failed", "row_failed"])
async def test_a_lost_call_says_so_and_ends(code: str, told: Told) -> None:  # contract: D3
    engine = FakeEngine()
    async with serving(engine) as server, server.connect(STOCK) as client:
        await client.until("session.updated")
        engine.fail(code)
        await told.ended(client, "call_failed")


@pytest.mark.causes("engine_fault")
async def test_a_device_fault_closes_every_call(told: Told) -> None:  # contract: I5
    engine = FakeEngine()
    async with serving(engine) as server:
        async with server.connect(STOCK) as client:
            await client.until("session.updated")
            engine.fail("engine_fault")
            await told.ended(client, "engine_fault")
            assert client.seen[-1]["reason"] == "engine_fault"
        async with server.connect(STOCK) as client:
            await told.refused(client, "engine_fault", close_code=1013)


@pytest.mark.causes("internal_error")
async def test_a_bug_in_a_handler_ends_only_its_session(
    monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    async with serving(FakeEngine()) as server:
        async with server.connect(STOCK) as other, server.connect(STOCK) as client:
            await other.until("session.updated")
            await client.until("session.updated")
            with monkeypatch.context() as patched:

                def broken(self: Connection, event: object) -> None:
                    raise ZeroDivisionError

                patched.setattr(Connection, "_handle", broken)
                await client.send("session.heartbeat", event_id="evt_x")
                await told.ended(client, "internal_error", "evt_x")
            await other.send("session.heartbeat")
            await other.until("session.heartbeat_ack")


@pytest.mark.causes("output_backpressure")
async def test_a_client_that_does_not_read_is_cut(told: Told) -> None:  # contract: J4
    engine = FakeEngine(script=talkative)
    async with serving(engine) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
        writer.write(
            b"GET /v1/realtime?duplex=1&model=m HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        await reader.readuntil(b"\r\n\r\n")
        session = await _session_of(server)
        for _ in range(4000):
            if session.state != "open":
                break
            session.append(np.zeros(20 * FRAME_SAMPLES, np.float32))
            await asyncio.sleep(0.005)
        assert session.state != "open"
        await asyncio.wait_for(session.wait_closed(), 20)
        assert engine.stats().used == 0
        tail = await asyncio.wait_for(reader.read(-1), 20)
        told.compare(_last_error(tail), "output_backpressure", "ended")
        assert session.counters.emitted < session.counters.accepted
        writer.close()


def _last_error(frames: bytes) -> dict[str, Any]:
    """The `error` of the last error event among raw websocket frames."""
    start = frames.rindex(b'{"type":"error"')
    event, _ = json.JSONDecoder().raw_decode(frames[start:].decode(errors="replace"))
    return dict(event["error"])


async def _session_of(server: Server) -> Any:
    for _ in range(1000):
        if server.manager.sessions:
            break
        await asyncio.sleep(0.01)
    return server.manager.sessions[0]


@pytest.mark.causes("invalid_api_key", "call_not_found", "invalid_sdp", "forbidden_origin")
async def test_http_errors(told: Told) -> None:
    options = HttpOptions(api_keys=("one", "two"))
    async with serving(FakeEngine(), options) as server:

        async def answers(status: int, code: str, path: str, **request: Any) -> None:
            method = request.pop("method", "GET")
            async with server.http.request(method, server.url + path, **request) as response:
                assert response.status == status
                # What names a call that is not there opens none: nothing ends with it.
                outcome: Outcome = "goes on" if code == "call_not_found" else "refused"
                told.compare((await response.json())["error"], code, outcome)
                assert server.manager.used == 0

        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic b25l"}):
            await answers(401, "invalid_api_key", "/v1/realtime", headers=headers)
        bearer, calls = {"Authorization": "Bearer two"}, "/v1/realtime/calls"
        await answers(404, "call_not_found", calls + "/rtc_none", method="DELETE", headers=bearer)
        sdp = bearer | {"Content-Type": "application/sdp"}
        await answers(400, "invalid_sdp", calls, method="POST", headers=sdp, data=b"nonsense")
        origin = bearer | {"Origin": "https://elsewhere.example.com"}
        await answers(403, "forbidden_origin", "/v1/models", headers=origin)
        async with server.http.get(server.url + "/health") as response:
            assert response.status == 200


def test_every_code_is_caused_here() -> None:
    """The table holds only codes that this server can send, and their ends have been seen."""
    tests = [value for name, value in globals().items() if name.startswith("test_")]
    named = {code for test in tests for code in _caused(getattr(test, "pytestmark", ()))}
    assert {*GOES_ON, *AT_OPEN, *named} == set(CODES)
    at_open = {code for code, entry in CODES.items() if entry.ends in ("at open", "at binding")}
    assert at_open <= {*AT_OPEN, *named}
    assert {code for code, entry in CODES.items() if entry.ends == "at binding"} == set(AT_BINDING)
    with pytest.raises(KeyError):
        SessionError("no_such_code", "")


def test_errors_are_json() -> None:
    error = SessionError("bad_event", "text", param="x")
    assert json.loads(json.dumps(error.payload()))["param"] == "x"


@pytest.mark.parametrize("path", [DUPLEX, STOCK])
async def test_a_mistake_of_ours_at_the_opening_is_said_and_logged(
    path: str, told: Told, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Connection, "open", broken)
    engine = FakeEngine()
    async with serving(engine) as server, server.connect(path) as client:
        await client.send("session.update", session={})
        await told.refused(client, "internal_error")
    assert "ZeroDivisionError" in caplog.text
    assert engine.stats().used == 0
