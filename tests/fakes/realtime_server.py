"""A scripted Realtime server on loopback: correct by default, broken in exactly one way on demand.

It has no model. Each 80 ms append is answered by one audio delta of 1920 samples, and `Script`
changes what goes on the wire.
"""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from aiohttp import WSMsgType, web

Event = dict[str, Any]
Edit = Callable[[Event, int, int], list[Event]]
"""Given one delta event, its number within the session and the session's number."""

CAPABILITIES: Event = {
    "implementation_level": "model_native_duplex",
    "chunk_period_ms": 80,
    "supports_multi_session": True,
    "supports_multi_session_same_replica": True,
    "supports_barge_in": False,
}


def tone_frame() -> bytes:
    """One frame of pcm16, `[1920]`, RMS about 0.07."""
    phase = np.arange(1920) * 2 * np.pi * 440 / 24_000
    return (0.1 * np.sin(phase) * 32_767).astype("<i2").tobytes()


def unchanged(event: Event, number: int, session: int) -> list[Event]:
    return [event]


@dataclass
class Script:
    """What the server does differently."""

    max_sessions: int = 2
    edit: Edit = unchanged
    pcm16: Callable[[], bytes] = tone_frame
    event_name: str = "response.output_audio.delta"
    capabilities: Callable[[int], Event] = lambda _session: CAPABILITIES
    response_id: Callable[[int], str] = lambda session: f"resp-{session}"
    session_id: Callable[[int], str] = lambda session: f"duplex-{session:032x}"
    delta_before_input: bool = False
    late_deltas: int = 0
    """Deltas sent only once the session is being closed."""
    answer_open: bool = True
    acknowledge_close: bool = True
    finish_handshake: bool = True
    refuse_code: str = "resource_exhausted"
    error_after: int | None = None
    read_delay: Callable[[int], float] = lambda _append: 0.0
    health: int = 200
    models: list[str] | None = field(default_factory=lambda: ["demo"])
    """`None`: the server asks for a key."""
    voices: list[str] | None = None
    """The first is the default; `None`: the server does not list any."""


@dataclass
class Seen:
    """What reached the server."""

    queries: list[dict[str, str]] = field(default_factory=list)
    authorizations: list[str | None] = field(default_factory=list)
    opened: list[Event] = field(default_factory=list)
    appends: dict[int, list[Event]] = field(default_factory=dict)
    append_times: dict[int, list[float]] = field(default_factory=dict)
    admitted_before_first_append: int | None = None
    closed: list[int] = field(default_factory=list)
    connections: int = 0
    live: int = 0


class ScriptedServer:
    """`GET /health`, `GET /v1/models` and the websocket, in a thread of its own."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.seen = Seen()
        self.port = 0

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/v1/realtime?duplex=1"

    async def _start(self) -> web.AppRunner:
        app = web.Application()
        app.router.add_get("/health", self._health)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/v1/voices", self._voices)
        app.router.add_get("/v1/realtime", self._socket)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        assert site._server is not None
        self.port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
        return runner

    async def _health(self, _request: web.Request) -> web.Response:
        return web.Response(status=self.script.health)

    async def _models(self, _request: web.Request) -> web.Response:
        if self.script.models is None:
            raise web.HTTPUnauthorized
        return web.json_response({"data": [{"id": name} for name in self.script.models]})

    async def _voices(self, _request: web.Request) -> web.Response:
        if self.script.voices is None:
            raise web.HTTPNotFound
        listed = enumerate(self.script.voices)
        return web.json_response(
            {"data": [{"id": name, "default": index == 0} for index, name in listed]}
        )

    async def _socket(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(autoclose=self.script.finish_handshake, timeout=0.1)
        await socket.prepare(request)
        self.seen.queries.append(dict(request.query))
        self.seen.authorizations.append(request.headers.get("Authorization"))
        number = self.seen.connections
        self.seen.connections += 1
        opening = await socket.receive_json()
        if self.seen.live >= self.script.max_sessions:
            await socket.send_json(_error(self.script.refuse_code))
            await socket.close(code=1013)
            return socket
        self.seen.live += 1
        self.seen.opened.append(opening)
        try:
            await self._session(socket, number)
        finally:
            self.seen.live -= 1
        return socket

    async def _session(self, socket: web.WebSocketResponse, number: int) -> None:
        script = self.script
        if not script.answer_open:
            await socket.receive()
            return
        session = {"id": script.session_id(number), "capabilities": script.capabilities(number)}
        await socket.send_json({"type": "session.created", "session": session})
        if script.delta_before_input:
            await self._deltas(socket, number, 1)
        self.seen.appends[number] = []
        self.seen.append_times[number] = []
        async for message in socket:
            if message.type is not WSMsgType.TEXT:
                continue
            event = json.loads(message.data)
            if event["type"] == "session.close":
                self.seen.closed.append(number)
                await self._close(socket, number)
                return
            await self._append(socket, number, event)

    async def _append(self, socket: web.WebSocketResponse, number: int, event: Event) -> None:
        if self.seen.admitted_before_first_append is None:
            self.seen.admitted_before_first_append = len(self.seen.opened)
        appends = self.seen.appends[number]
        self.seen.append_times[number].append(asyncio.get_running_loop().time())
        await asyncio.sleep(self.script.read_delay(len(appends)))
        appends.append(event)
        if self.script.error_after == len(appends):
            await socket.send_json(_error("engine_error"))
        await self._deltas(socket, number, len(appends))

    async def _deltas(self, socket: web.WebSocketResponse, number: int, count: int) -> None:
        for delta in self.script.edit(self._delta(number), count, number):
            await socket.send_json(delta)

    def _delta(self, number: int) -> Event:
        return {
            "type": self.script.event_name,
            "response_id": self.script.response_id(number),
            "delta": base64.b64encode(self.script.pcm16()).decode(),
            "format": "pcm16",
            "sample_rate_hz": 24_000,
            "metadata": {
                "vllm_omni": {
                    "runtime_impl": "scheduler_data_plane",
                    "uses_model_runner_scheduler": True,
                    "runner_kv_backed": True,
                }
            },
        }

    async def _close(self, socket: web.WebSocketResponse, number: int) -> None:
        for _ in range(self.script.late_deltas):
            await socket.send_json(self._delta(number))
        if not self.script.acknowledge_close:
            await asyncio.Event().wait()
        await socket.send_json({"type": "session.closed", "reason": "client_close"})
        if not self.script.finish_handshake:
            await asyncio.Event().wait()


def _error(code: str) -> Event:
    return {"type": "error", "error": {"type": "server_error", "code": code, "message": "secret"}}


@contextmanager
def serve(script: Script) -> Iterator[ScriptedServer]:
    """Run the server in a thread until the block ends."""
    server = ScriptedServer(script)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    runner = asyncio.run_coroutine_threadsafe(server._start(), loop).result(10)
    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(_stop(runner), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def _stop(runner: web.AppRunner) -> None:
    await runner.cleanup()
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
