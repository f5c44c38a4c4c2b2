"""What waits to be written to a socket: bounded in frames and bytes, written by one task in order.

Knows an aiohttp websocket and nothing of what the messages mean.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

log = logging.getLogger(__name__)

MAX_AUDIO_FRAMES = 64
"""About 5 s; a client that is so far behind is cut."""
MAX_BYTES = 64 * 2**20
"""Of all that waits: four of the largest events that a client may send and have read back."""
LAST_WORDS_S = 5.0
"""How long a close waits for a client to take what is left."""


@dataclass(frozen=True, slots=True)
class _Message:
    payload: str | bytes
    audio: bool


class Outbox:
    """The sending side of one socket."""

    def __init__(self, socket: web.WebSocketResponse, on_overflow: Callable[[], None]) -> None:
        self._socket = socket
        self._on_overflow = on_overflow
        self._waiting: deque[_Message] = deque()
        self._audio_frames = 0
        self._bytes = 0
        self._wake = asyncio.Event()
        self._closing: tuple[int, str] | None = None
        self._ping = False
        self._overflowed = False
        self.task = asyncio.get_running_loop().create_task(self._write(), name="outbox")

    def put(self, payload: str | bytes, *, audio: bool = False) -> None:
        """Queue a message; never blocks. Nothing is taken after `close`."""
        if self._closing is not None:
            return
        self._waiting.append(_Message(payload, audio))
        self._audio_frames += audio
        self._bytes += len(payload)
        self._wake.set()
        behind = self._audio_frames > MAX_AUDIO_FRAMES or self._bytes > MAX_BYTES
        if behind and not self._overflowed:
            self._overflowed = True
            self.clear()
            self._on_overflow()

    def clear(self) -> None:
        """Forget what waits."""
        self._waiting.clear()
        self._audio_frames = self._bytes = 0

    def ping(self) -> None:
        self._ping = True
        self._wake.set()

    def close(self, code: int, reason: str) -> None:
        """Send what waits, then the close frame; the first call counts."""
        if self._closing is None:
            self._closing = (code, reason)
            self._wake.set()

    async def finished(self) -> None:
        """Until everything was written, or the client did not take it in time."""
        await asyncio.wait([self.task], timeout=LAST_WORDS_S)
        if not self.task.done():
            self.task.cancel()
            await asyncio.wait([self.task])

    async def _write(self) -> None:
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                await self._write_waiting()
                if self._closing is not None and not self._waiting:
                    code, reason = self._closing
                    await self._socket.close(code=code, message=_reason(reason), drain=True)
                    return
        except (ConnectionError, RuntimeError) as error:
            # The reading side finds the same and closes the session.
            log.debug("the socket went away while writing: %s", type(error).__name__)

    async def _write_waiting(self) -> None:
        if self._ping:
            self._ping = False
            await self._socket.ping()
        while self._waiting:
            message = self._waiting.popleft()
            self._bytes -= len(message.payload)
            if isinstance(message.payload, str):
                await self._socket.send_str(message.payload)
            else:
                await self._socket.send_bytes(message.payload)
            self._audio_frames -= message.audio and bool(self._audio_frames)


def _reason(text: str) -> bytes:
    """A close frame's reason has room for 123 bytes."""
    return text.encode()[:123].decode(errors="ignore").encode()
