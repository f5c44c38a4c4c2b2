"""The real HTTP app on a free port of loopback, around any engine, and a raw client for it."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from aiohttp import ClientSession, ClientWebSocketResponse, WSMsgType, web

from agent.http import HttpOptions, build_app, make_runner
from agent.manager import SessionManager
from model import FRAME_SAMPLES, Engine

PATIENCE_S = 20.0


@dataclass
class Server:
    """A running app."""

    manager: SessionManager
    port: int
    http: ClientSession

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def ws(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    @asynccontextmanager
    async def connect(self, path: str, **options: Any) -> AsyncIterator[Client]:
        async with self.http.ws_connect(self.ws + path, max_msg_size=0, **options) as socket:
            yield Client(socket)


@asynccontextmanager
async def serving(
    engine: Engine,
    options: HttpOptions | None = None,
    *,
    manager: SessionManager | None = None,
    routes: Iterable[web.RouteDef] = (),
    static: Path | None = None,
) -> AsyncIterator[Server]:
    """Start, serve, and close whatever is left."""
    manager = manager or SessionManager(engine)
    app = build_app(manager, options or HttpOptions(), routes, static)
    runner = make_runner(app, 1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        async with ClientSession() as http:
            yield Server(manager, port, http)
    finally:
        await manager.close_all("shutdown")
        await runner.cleanup()


async def until_free(server: Server, but: int = 0) -> None:
    """Until no session holds a slot, or only so many do."""
    for _ in range(1000):
        if server.manager.used == but:
            return
        await asyncio.sleep(0.02)
    raise AssertionError("a slot was not given back")


@dataclass
class Client:
    """A websocket that keeps every event it has seen."""

    socket: ClientWebSocketResponse
    seen: list[dict[str, Any]] = field(default_factory=list)

    async def send(self, type_: str, **fields: Any) -> None:
        await self.socket.send_str(json.dumps({"type": type_, **fields}))

    async def append(self, pcm: np.ndarray, **fields: Any) -> None:
        data = base64.b64encode(pcm.astype("<f4").tobytes()).decode()
        await self.send(
            "input_audio_buffer.append",
            audio=data,
            format="pcm_f32le",
            sample_rate_hz=24000,
            **fields,
        )

    async def event(self) -> dict[str, Any] | None:
        """The next event; none where the socket has ended."""
        async with asyncio.timeout(PATIENCE_S):
            message = await self.socket.receive()
        if message.type is not WSMsgType.TEXT:
            return None
        event: dict[str, Any] = json.loads(message.data)
        self.seen.append(event)
        return event

    async def until(self, *types: str) -> dict[str, Any]:
        """Read on to the first event of one of these types."""
        while (event := await self.event()) is not None:
            if event["type"] in types:
                return event
        raise AssertionError(f"the socket ended before {types}: {self.types}")

    async def rest(self) -> list[dict[str, Any]]:
        """Everything up to the end of the socket."""
        while await self.event() is not None:
            pass
        return self.seen

    def all(self, type_: str) -> list[dict[str, Any]]:
        return [event for event in self.seen if event["type"] == type_]

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.seen]


def silence(frames: int = 1) -> np.ndarray:
    return np.zeros(frames * FRAME_SAMPLES, np.float32)
