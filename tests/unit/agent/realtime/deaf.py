"""A websocket's connection without a network: a client that may take nothing and say little."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from aiohttp import WSMessage, WSMsgType


class Deaf:
    """The sending side of a socket whose own buffer is full: no send returns until it is read."""

    def __init__(self) -> None:
        self.read = asyncio.Event()
        self.sent: list[str | bytes] = []
        self.close_code: int | None = None
        self.gone = asyncio.Event()

    async def send_str(self, text: str) -> None:
        await self.read.wait()
        self.sent.append(text)

    async def send_bytes(self, data: bytes) -> None:
        await self.read.wait()
        self.sent.append(data)

    async def close(self, *, code: int, message: bytes, drain: bool) -> None:
        self.close_code = code
        self.gone.set()


class Watched:
    """A connection whose client says no more than this, until its socket is closed."""

    def __init__(self, socket: Deaf, *says: dict[str, Any]) -> None:
        self.socket = socket
        self.ping: Callable[[], None] = lambda: None
        self.listening = False
        self.aborted = False
        self._says = [WSMessage(WSMsgType.TEXT, json.dumps(one), None) for one in says]

    async def first(self, seconds: float) -> WSMessage | None:
        async for message in self.messages():
            return message
        return None

    async def messages(self) -> AsyncIterator[WSMessage]:
        self.listening = True
        while self._says:
            yield self._says.pop(0)
        await self.socket.gone.wait()

    def release(self) -> None: ...

    def abort(self) -> None:
        self.aborted = True
