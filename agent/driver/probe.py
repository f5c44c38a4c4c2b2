"""One websocket session as the driver sees it: raw events with their times, bounded cleanup."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import aiohttp

from agent.driver.evaluate import Observation
from agent.driver.options import FRAME_SECONDS, SAMPLE_RATE, DriverOptions
from agent.driver.pacing import PacedSender, SendTimes
from agent.driver.packets import AUDIO_EVENTS, AudioLedger
from agent.driver.source import InputAudio

MAX_EVENT_BYTES = 64 * 2**20
TEXT_EVENTS = frozenset(
    {"response.output_audio_transcript.delta", "response.audio_transcript.delta"}
)


class DriverError(Exception):
    """A phase failed. Its text is the phase and a kind, nothing that the server wrote."""

    def __init__(self, phase: str, kind: str) -> None:
        super().__init__(f"{phase}: {kind}")
        self.phase = phase
        self.kind = kind


class Refused(DriverError):
    """The server answered the opening with a typed error."""

    def __init__(self, code: str) -> None:
        super().__init__("admission", code)
        self.code = code


def session_url(url: str, model: str) -> str:
    """`url` with `duplex=1`, `model` and `autostart=0` in its query."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    query |= {"duplex": "1", "model": model, "autostart": "0"}
    return urlunsplit(parts._replace(query=urlencode(query)))


@dataclass(frozen=True)
class TimedEvent:
    """A raw server event and its receipt on the monotonic clock."""

    received_at: float
    event: dict[str, Any]


@dataclass
class Probe:
    """A session: open, stream at 80 ms, wait, close. All reading happens in one task."""

    name: str
    options: DriverOptions
    model: str
    persona: str
    http: aiohttp.ClientSession
    events: list[TimedEvent] = field(default_factory=list)
    audio: AudioLedger = field(default_factory=AudioLedger)
    sent: list[SendTimes] = field(default_factory=list)
    error_codes: list[str] = field(default_factory=list)
    first_text_at: float | None = None
    input_started: bool = False
    audio_before_input: bool = False
    session: dict[str, Any] = field(default_factory=dict)
    _socket: aiohttp.ClientWebSocketResponse | None = None
    _reader: asyncio.Task[None] | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def session_id(self) -> str | None:
        value = self.session.get("id")
        return value if isinstance(value, str) else None

    @property
    def frames_sent(self) -> int:
        return len(self.sent)

    @property
    def frames_received(self) -> int:
        return self.audio.frames

    def observe(self, index: int, planned_frames: int, error: str | None) -> Observation:
        """A copy of what has come so far."""
        if self.audio_before_input:
            error = error or "stream: audio_before_input"
        return Observation(
            index=index,
            session_id=self.session_id,
            planned_frames=planned_frames,
            sent=list(self.sent),
            audio=self.audio.since(0),
            audio_events=list(self.of_type(AUDIO_EVENTS)),
            first_text_at=self.first_text_at,
            error_codes=list(self.error_codes),
            error=error,
        )

    @property
    def capabilities(self) -> dict[str, Any]:
        value = self.session.get("capabilities")
        return value if isinstance(value, dict) else {}

    async def open(self) -> None:
        """Connect and be admitted. Raises `Refused` or `DriverError`."""
        headers = {}
        if self.options.api_key:
            headers["Authorization"] = f"Bearer {self.options.api_key}"
        try:
            async with asyncio.timeout(self.options.timeout_s):
                self._socket = await self.http.ws_connect(
                    session_url(self.options.url, self.model),
                    headers=headers,
                    max_msg_size=MAX_EVENT_BYTES,
                )
                self._reader = asyncio.create_task(self._read(self._socket))
                await self._socket.send_json({"type": "session.update", "session": self._config()})
                await self._until(lambda: self._find("session.created") or self.error_codes)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise DriverError("admission", type(error).__name__) from error
        created = self._find("session.created")
        if created is None:
            raise Refused(self.error_codes[0] if self.error_codes else "closed_without_session")
        session = created.event.get("session")
        self.session = session if isinstance(session, dict) else {}

    def _config(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "modalities": ["audio", "text"],
            "input_audio_format": "pcm_f32le",
            "output_audio_format": "pcm16",
            "voice": self.options.voice,
            "instructions": self.persona,
            "turn_detection": None,
            "extra_body": {"auto_response": True},
        }

    async def stream(self, audio: InputAudio, start: float) -> None:
        """Send every frame of `audio` on the grid that begins at `start`."""

        async def send(index: int) -> None:
            assert self._socket is not None
            self.input_started = True
            await self._socket.send_json(self._append(audio, index))

        sender = PacedSender(send, self.sent)
        try:
            async with asyncio.timeout(self.options.timeout_s + len(audio.frames) * FRAME_SECONDS):
                await sender.run(len(audio.frames), start)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise DriverError("stream", type(error).__name__) from error

    async def drain(self) -> None:
        """The fixed wait; audio that comes later is not counted."""
        await asyncio.sleep(self.options.drain_s)

    @staticmethod
    def _append(audio: InputAudio, index: int) -> dict[str, Any]:
        return {
            "type": "input_audio_buffer.append",
            "audio": audio.payload(index),
            "format": "pcm_f32le",
            "sample_rate_hz": SAMPLE_RATE,
            "duration_ms": 80,
            "audio_end_ms": (index + 1) * 80,
            "is_speech": True,
        }

    async def wait_for_frames(self, frames: int) -> None:
        """Until so many output frames or an error have come. Raises `DriverError`."""
        try:
            async with asyncio.timeout(self.options.timeout_s):
                await self._until(lambda: self.audio.frames >= frames or self.error_codes)
        except TimeoutError as error:
            raise DriverError("coverage", "TimeoutError") from error
        if self.audio.frames < frames and not self.error_codes:
            raise DriverError("coverage", "closed")

    async def close(self) -> None:
        """`session.close`, its acknowledgement, the closing handshake. Raises `DriverError`.

        The first two share one bound and the handshake has the same again, so that a server that
        answers neither cannot hold a cancelled run.
        """
        try:
            await self._close_session()
        finally:
            await self._close_transport()

    async def _close_session(self) -> None:
        if self._socket is None or self._socket.closed:
            raise DriverError("cleanup", "already_closed")
        try:
            async with asyncio.timeout(self.options.cleanup_timeout_s):
                await self._socket.send_json({"type": "session.close"})
                await self._until(lambda: self._find("session.closed"))
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise DriverError("cleanup", type(error).__name__) from error
        if self._find("session.closed") is None:
            raise DriverError("cleanup", "closed_without_acknowledgement")

    async def _close_transport(self) -> None:
        socket, reader = self._socket, self._reader
        if reader is not None:
            reader.cancel()
            with suppress(asyncio.CancelledError):
                await reader
        if socket is not None and not socket.closed:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.options.cleanup_timeout_s):
                    await socket.close()

    async def abandon(self) -> None:
        """Close whatever is open within the bound, without a verdict."""
        with suppress(DriverError):
            await self.close()

    async def _read(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        try:
            async for message in socket:
                received_at = time.monotonic()
                if message.type is aiohttp.WSMsgType.TEXT:
                    self._take(message.data, received_at)
                    self._changed.set()
        finally:
            self._changed.set()

    def _take(self, data: str, received_at: float) -> None:
        try:
            event = json.loads(data)
        except ValueError:
            event = None
        if not isinstance(event, dict):
            self.error_codes.append("malformed_event")
            return
        kind = event.get("type")
        index = len(self.events)
        if kind in AUDIO_EVENTS:
            self.audio.take(event, index, received_at)
            self.audio_before_input |= not self.input_started
        elif kind in TEXT_EVENTS and event.get("delta") and self.first_text_at is None:
            self.first_text_at = received_at
        elif kind == "error":
            self.error_codes.append(_error_code(event))
        self.events.append(TimedEvent(received_at, event))

    async def _until(self, condition: Any) -> None:
        """Until `condition()` is truthy or the socket has ended."""
        while not condition() and self._reader is not None and not self._reader.done():
            self._changed.clear()
            await self._changed.wait()

    def _find(self, kind: str) -> TimedEvent | None:
        return next((timed for timed in self.events if timed.event.get("type") == kind), None)

    def of_type(self, kinds: frozenset[str]) -> Iterator[dict[str, Any]]:
        return (timed.event for timed in self.events if timed.event.get("type") in kinds)


def _error_code(event: dict[str, Any]) -> str:
    error = event.get("error")
    code = error.get("code") if isinstance(error, dict) else event.get("code")
    return code if isinstance(code, str) and code.replace("_", "").isalnum() else "unnamed_error"
