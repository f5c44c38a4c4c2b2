"""What the room can read: transcript text streams, JSON data messages, the state attribute.

Everything goes out in the order in which it was said, through one task (contract H5;
`docs/rooms.md` documents the messages). It knows no audio and no session.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

TRANSCRIPT_TOPIC = "lk.transcription"
DATA_TOPIC = "personaplex"
STATE_ATTRIBUTE = "lk.agent.state"

log = logging.getLogger(__name__)


class TextStream(Protocol):
    """What is used of `rtc.TextStreamWriter`."""

    async def write(self, text: str) -> None: ...

    async def aclose(
        self, *, reason: str = "", attributes: dict[str, str] | None = None
    ) -> None: ...


class Publisher(Protocol):
    """What is used of `rtc.LocalParticipant`."""

    async def stream_text(
        self, *, topic: str = "", attributes: dict[str, str] | None = None
    ) -> TextStream: ...

    async def publish_data(
        self, payload: bytes | str, *, reliable: bool = True, topic: str = ""
    ) -> None: ...

    async def set_attributes(self, attributes: dict[str, str]) -> None: ...


class Transcript:
    """Queues what is to be written; `run` is its one task."""

    def __init__(
        self,
        publisher: Publisher,
        track_sid: Callable[[], str],
        record: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        self.lost = 0
        """Messages that the room did not take, as when it goes away."""
        self._publisher = publisher
        self._track_sid = track_sid
        self._record = record
        self._queue: asyncio.Queue[Callable[[], Awaitable[None]] | None] = asyncio.Queue()
        self._stream: TextStream | None = None
        self._segment = ""
        self._text = ""

    def text(self, segment: str, t_ms: int, delta: str) -> None:
        """Words of the agent, at the time of their frame."""
        self._queue.put_nowait(lambda: self._write(segment, t_ms, delta))

    def done(self, segment: str, t_ms: int) -> None:
        """The segment is complete."""
        self._queue.put_nowait(lambda: self._finish(segment, t_ms))

    def state(self, t_ms: int, state: str, **details: Any) -> None:
        """What the agent does, as attribute and as data message."""
        self._queue.put_nowait(lambda: self._publisher.set_attributes({STATE_ATTRIBUTE: state}))
        self.data("state", t_ms, state=state, **details)

    def data(self, kind: str, t_ms: int, **fields: Any) -> None:
        """A JSON data message."""
        self._queue.put_nowait(lambda: self._publish(kind, t_ms, **fields))

    async def run(self) -> None:
        while (write := await self._queue.get()) is not None:
            try:
                await write()
            except Exception as error:  # rtc raises a class of its own for each kind of message
                self.lost += 1
                log.debug("a message was not sent: %s", error)

    def finish(self) -> None:
        """`run` ends when everything said until now is written."""
        self._queue.put_nowait(None)

    async def _write(self, segment: str, t_ms: int, delta: str) -> None:
        if self._stream is None or self._segment != segment:
            await self._open(segment)
        self._text += delta
        assert self._stream is not None
        await self._stream.write(delta)
        await self._publish("transcript", t_ms, segment=segment, text=delta, final=False)

    async def _open(self, segment: str) -> None:
        self._segment, self._text = segment, ""
        self._stream = await self._publisher.stream_text(
            topic=TRANSCRIPT_TOPIC,
            attributes={
                "lk.segment_id": segment,
                "lk.transcription_final": "false",
                "lk.transcribed_track_id": self._track_sid(),
            },
        )

    async def _finish(self, segment: str, t_ms: int) -> None:
        stream, self._stream = self._stream, None
        if stream is None or self._segment != segment:
            return
        await stream.aclose(attributes={"lk.transcription_final": "true"})
        await self._publish("transcript", t_ms, segment=segment, text=self._text, final=True)

    async def _publish(self, kind: str, t_ms: int, **fields: Any) -> None:
        message = {"type": kind, "t_ms": t_ms, **fields}
        if self._record is not None:
            self._record(message)
        text = json.dumps(message, ensure_ascii=False)
        await self._publisher.publish_data(text, reliable=True, topic=DATA_TOPIC)
