"""Server events as a client sees them, the errors of a client, and one response as it arrives."""

from __future__ import annotations

import asyncio
import base64
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")
MAX_BUFFERED = 1024
AUDIO_DELTAS = frozenset({"response.output_audio.delta", "response.audio.delta"})
TEXT_DELTAS = frozenset(
    {
        "response.output_audio_transcript.delta",
        "response.audio_transcript.delta",
        "response.output_text.delta",
    }
)


class DuplexClientError(Exception):
    """Base of what a client raises."""


class DuplexConnectionError(DuplexClientError):
    """The server cannot be reached, or the connection broke."""


class DuplexProtocolError(DuplexClientError):
    """The server answered with an `error` event."""

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        event_id: str | None = None,
        raw: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(f"{code}: {message}" if code else message)
        self.code = code
        self.event_id = event_id
        self.raw = raw


class DuplexSessionClosedError(DuplexClientError):
    """The session ended before what was waited for."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the session is closed: {reason}")
        self.reason = reason


class DuplexEvent(dict[str, Any]):
    """A server event: the JSON object itself, with names for what is asked of it most."""

    @property
    def type(self) -> str:
        return str(self.get("type", ""))

    @property
    def event_id(self) -> str | None:
        return self.get("event_id")

    @property
    def server_event_seq(self) -> int | None:
        return self.get("server_event_seq")

    @property
    def response_id(self) -> str | None:
        response = self.get("response")
        nested = response.get("id") if isinstance(response, dict) else None
        return self.get("response_id") or nested

    @property
    def audio(self) -> bytes:
        """The decoded bytes of an audio delta; empty for all else."""
        payload = self.get("delta") or self.get("audio") if self.type in AUDIO_DELTAS else None
        return base64.b64decode(payload) if isinstance(payload, str) else b""

    @property
    def text(self) -> str:
        """The words of a transcript or text delta; empty for all else."""
        return str(self.get("delta", "")) if self.type in TEXT_DELTAS else ""

    def to_exception(self) -> DuplexProtocolError:
        """An `error` event, nested or flat, as the exception for it."""
        error = self.get("error")
        if isinstance(error, dict):
            return DuplexProtocolError(
                str(error.get("message", "")),
                code=error.get("code"),
                event_id=error.get("event_id"),
                raw=dict(self),
            )
        return DuplexProtocolError(str(error or ""), code=self.get("code"), raw=dict(self))


class Channel(Generic[T]):
    """A queue for one reader that drops its oldest entry rather than grow."""

    def __init__(self) -> None:
        self._entries: deque[T] = deque(maxlen=MAX_BUFFERED)
        self._wake = asyncio.Event()
        self._ended = False
        self._error: Exception | None = None

    def put(self, entry: T) -> None:
        self._entries.append(entry)
        self._wake.set()

    def end(self, error: Exception | None = None) -> None:
        """After what is queued the reader stops, or gets this error; the first call counts."""
        if not self._ended:
            self._ended, self._error = True, error
            self._wake.set()

    async def __aiter__(self) -> AsyncIterator[T]:
        while True:
            while self._entries:
                yield self._entries.popleft()
            if self._ended:
                if self._error is not None:
                    raise self._error
                return
            self._wake.clear()
            await self._wake.wait()


class ResponseHandle:
    """One response: its words so far, its audio as it comes."""

    def __init__(self, created: DuplexEvent) -> None:
        self.response_id = created.response_id
        self.decision = "speak"
        self.transcript = ""
        self.played_ms = 0.0
        self.created_event = created
        self.done_event: DuplexEvent | None = None
        self._audio: Channel[bytes] = Channel()
        self._done = asyncio.Event()

    @property
    def text(self) -> str:
        return self.transcript

    @property
    def finished(self) -> bool:
        return self._done.is_set()

    async def wait(self, timeout_s: float | None = None) -> None:
        """Until the response is done."""
        async with asyncio.timeout(timeout_s):
            await self._done.wait()

    async def audio(self) -> AsyncIterator[bytes]:
        """Pieces of audio in the session's output format."""
        async for piece in self._audio:
            yield piece

    def take(self, event: DuplexEvent) -> None:
        """An event of this response."""
        self.transcript += event.text
        if event.audio:
            self._audio.put(event.audio)
        if event.type == "response.done":
            self.finish(event)

    def finish(self, event: DuplexEvent | None = None) -> None:
        self.done_event = event
        self._audio.end()
        self._done.set()
