"""A server websocket that is watched: pings when nothing comes, cuts when nothing answers.

Shared by the Realtime websocket and `/api/chat`. It yields messages and knows no protocol.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from aiohttp import WSMessage, WSMsgType, hdrs, web

PING_AFTER_S = 5.0
CUT_AFTER_S = 15.0
MAX_MESSAGE_BYTES = 20 * 1024 * 1024
"""Above the largest event, so that one a little too large is answered and not cut."""


class WatchedSocket:
    """One upgraded connection."""

    def __init__(self, request: web.Request, socket: web.WebSocketResponse) -> None:
        self.socket = socket
        self._transport = request.transport
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._pinged = False
        self.ping: Callable[[], None] = lambda: None
        """Sends a ping; set by who owns the writing side."""

    @classmethod
    async def accept(cls, request: web.Request) -> WatchedSocket:
        """Upgrade. Pongs are seen here, so aiohttp must not swallow them."""
        socket = web.WebSocketResponse(
            autoping=False,
            compress=False,
            max_msg_size=MAX_MESSAGE_BYTES,
            timeout=5.0,
            protocols=("realtime",),
        )
        if not request.headers.get(hdrs.SEC_WEBSOCKET_KEY, "").isascii():
            # The HTTP library answers other keys that are no base64, but stumbles over these.
            raise web.HTTPBadRequest(text="Sec-WebSocket-Key is not base64")
        await socket.prepare(request)
        watched = cls(request, socket)
        watched._watch()
        return watched

    async def messages(self) -> AsyncIterator[WSMessage]:
        """Text and binary messages until the socket ends."""
        async for message in self.socket:
            self._last, self._pinged = self._loop.time(), False
            if message.type is WSMsgType.PING:
                await self.socket.pong(message.data)
            elif message.type in (WSMsgType.TEXT, WSMsgType.BINARY):
                yield message
            # Messages that have arrived already are read without a wait: other calls come between.
            await asyncio.sleep(0)

    async def first(self, seconds: float) -> WSMessage | None:
        """The first text or binary message; none where the socket ended."""
        async with asyncio.timeout(seconds):
            async for message in self.messages():
                return message
        return None

    def release(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def abort(self) -> None:
        """Drop the connection without a word: nobody listens."""
        if self._transport is not None:
            self._transport.abort()

    def _watch(self) -> None:
        silent = self._loop.time() - self._last
        if silent >= PING_AFTER_S + CUT_AFTER_S:
            self.abort()
            return
        if silent >= PING_AFTER_S and not self._pinged:
            self._pinged = True
            self.ping()
        limit = PING_AFTER_S + CUT_AFTER_S if self._pinged else PING_AFTER_S
        self._timer = self._loop.call_at(self._last + limit, self._watch)
