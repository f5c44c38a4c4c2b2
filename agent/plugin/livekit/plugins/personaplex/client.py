"""`DuplexClient`: one duplex session over a websocket, for programs without a LiveKit room.

    from livekit.plugins.personaplex import AudioFormat, DuplexClient, SessionConfig

    config = SessionConfig(input_audio=AudioFormat("pcm16", 24_000), voice="NATF2.pt")
    async with DuplexClient("ws://127.0.0.1:8000/v1/duplex", model="demo", config=config) as client:
        await client.stream_pcm(pcm16)
        async for response in client.responses():
            async for chunk in response.audio():
                play(chunk)

`DuplexClientBase` holds everything but the transport.
"""

from __future__ import annotations

import asyncio
import base64
import json
import uuid
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import aiohttp

from .config import AudioFormat, SessionConfig
from .events import (
    MAX_BUFFERED,
    Channel,
    DuplexClientError,
    DuplexConnectionError,
    DuplexEvent,
    DuplexProtocolError,
    DuplexSessionClosedError,
    ResponseHandle,
)

__all__ = [
    "AudioFormat",
    "DuplexClient",
    "DuplexClientBase",
    "DuplexClientError",
    "DuplexConnectionError",
    "DuplexEvent",
    "DuplexProtocolError",
    "DuplexSessionClosedError",
    "ReconnectPolicy",
    "ResponseHandle",
    "SessionConfig",
    "build_realtime_url",
]

MAX_INBOUND_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ReconnectPolicy:
    """How often to try to reach a server. A session that broke cannot be resumed."""

    max_attempts: int = 5
    backoff_s: tuple[float, float] = (0.25, 4.0)

    def delay(self, attempt: int) -> float:
        first, most = self.backoff_s
        return float(min(most, first * 2**attempt))


def build_realtime_url(url: str, model: str) -> str:
    """The address with `duplex=1`, the model and `autostart=0`; a path is kept."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query)) | {"duplex": "1", "autostart": "0"}
    if model:
        query["model"] = model
    path = parts.path if parts.path.strip("/") else "/v1/realtime"
    return urlunsplit((parts.scheme, parts.netloc, path, urlencode(query), ""))


class DuplexClientBase(ABC):
    """A session and its events, whatever carries them."""

    def __init__(
        self, *, model: str, config: SessionConfig | None, handshake_timeout_s: float
    ) -> None:
        self.model = model
        self.config = config or SessionConfig()
        self.session_id: str | None = None
        self.session_info: dict[str, Any] = {}
        self._handshake_timeout_s = handshake_timeout_s
        self._events: Channel[DuplexEvent] = Channel()
        self._responses: Channel[ResponseHandle] = Channel()
        self._open: dict[str | None, ResponseHandle] = {}
        self._recent: deque[DuplexEvent] = deque(maxlen=MAX_BUFFERED)
        self._arrived = asyncio.Event()
        self._ended: Exception | None = None
        self._audio_end_ms = 0.0

    async def __aenter__(self) -> DuplexClientBase:
        try:
            async with asyncio.timeout(self._handshake_timeout_s):
                await self._connect()
                session = self.config.to_session_payload(model=self.model)
                await self.send({"type": "session.update", "session": session})
                await self._next_of("session.created", "error")
        except TimeoutError as error:
            await self._disconnect()
            raise DuplexConnectionError("no answer to the opening in time") from error
        except BaseException:
            await self._disconnect()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self, *, timeout_s: float = 20.0) -> None:
        """Close the session, wait for the server's last word, then drop the transport."""
        try:
            if self._ended is None:
                await self.send({"type": "session.close", "reason": "client_close"})
                async with asyncio.timeout(timeout_s):
                    await self._next_of("session.closed", "session.expired")
        except (TimeoutError, DuplexClientError):
            # Whatever the server did not say, the transport is dropped all the same.
            self._end(DuplexSessionClosedError("client_close"))
        finally:
            await self._disconnect()

    # Input.

    async def append_audio(
        self,
        pcm: bytes,
        *,
        is_speech: bool | None = None,
        video_frames: Sequence[str] | None = None,
    ) -> None:
        """Send audio in the configured input format, any length."""
        audio = self.config.input_audio
        duration = audio.duration_ms(len(pcm))
        self._audio_end_ms += duration
        event: dict[str, Any] = {
            "type": "input_audio_buffer.append",
            "audio": base64.b64encode(pcm).decode(),
            "format": audio.encoding,
            "sample_rate_hz": audio.sample_rate_hz,
            "duration_ms": round(duration),
            "audio_end_ms": round(self._audio_end_ms),
        }
        if is_speech is not None:
            event["is_speech"] = is_speech
        if video_frames is not None:
            event["video_frames"] = list(video_frames)
        await self.send(event)

    async def stream_pcm(
        self,
        pcm: bytes,
        *,
        chunk_ms: int = 200,
        realtime: bool = True,
        is_speech: bool | None = None,
    ) -> int:
        """Send audio in chunks, paced like a microphone; the number of chunks."""
        size = self.config.input_audio.byte_count(chunk_ms)
        loop = asyncio.get_running_loop()
        started = loop.time()
        chunks = [pcm[start : start + size] for start in range(0, len(pcm), size)]
        for number, chunk in enumerate(chunks):
            if realtime:
                await asyncio.sleep(max(0.0, started + number * chunk_ms / 1000 - loop.time()))
            await self.append_audio(chunk, is_speech=is_speech)
        return len(chunks)

    async def commit(self, *, final: bool = True, create_response: bool | None = None) -> None:
        event: dict[str, Any] = {"type": "input_audio_buffer.commit", "final": final}
        if create_response is not None:
            event["create_response"] = create_response
        await self.send(event)

    async def clear_input(self) -> None:
        await self.send({"type": "input_audio_buffer.clear"})

    async def cancel_response(self, response_id: str | None = None) -> None:
        named = {} if response_id is None else {"response_id": response_id}
        await self.send({"type": "response.cancel", **named})

    async def ack_playback(
        self,
        played_ms: float,
        *,
        response_id: str | None = None,
        item_id: str | None = None,
        committed_ms: float | None = None,
    ) -> None:
        named = {"response_id": response_id, "item_id": item_id, "committed_ms": committed_ms}
        given = {name: value for name, value in named.items() if value is not None}
        await self.send({"type": "playback.ack", "played_ms": played_ms, **given})

    async def send(self, event: dict[str, Any]) -> str:
        """Send any client event; the id that an `error` would echo."""
        event_id = str(event.get("event_id") or f"evt_{uuid.uuid4().hex}")
        await self._transmit({**event, "event_id": event_id})
        return event_id

    # Output.

    async def events(self) -> AsyncIterator[DuplexEvent]:
        """Every server event, in order, until the session is closed."""
        async for event in self._events:
            yield event

    async def responses(self) -> AsyncIterator[ResponseHandle]:
        """Each response as it begins. Raises what the server calls an error."""
        async for response in self._responses:
            yield response

    async def wait_for(self, *types: str, timeout_s: float) -> DuplexEvent:
        """The next event of these types after the one that was last waited for."""
        async with asyncio.timeout(timeout_s):
            return await self._next_of(*types)

    async def _next_of(self, *types: str) -> DuplexEvent:
        while True:
            while self._recent:
                event = self._recent.popleft()
                if event.type == "error" and self.session_id is None:
                    raise event.to_exception()
                if event.type in types:
                    return event
            if self._ended is not None:
                raise self._ended
            self._arrived.clear()
            await self._arrived.wait()

    def _take(self, raw: dict[str, Any]) -> None:
        """One server event, from the transport."""
        event = DuplexEvent(raw)
        if isinstance(event.get("session"), dict):
            self.session_info = event["session"]
            self.session_id = self.session_id or self.session_info.get("id")
        self._recent.append(event)
        self._arrived.set()
        self._events.put(event)
        self._follow_response(event)
        if event.type == "session.closed":
            self._end(DuplexSessionClosedError(str(event.get("reason"))), clean=True)
        elif event.type == "session.expired":
            self._end(DuplexSessionClosedError(str(event.get("reason"))))

    def _follow_response(self, event: DuplexEvent) -> None:
        if event.type == "response.created":
            handle = self._open[event.response_id] = ResponseHandle(event)
            self._responses.put(handle)
        elif event.type == "error":
            self._responses.end(event.to_exception())
        elif event.response_id in self._open:
            self._open[event.response_id].take(event)
            if event.type == "response.done":
                del self._open[event.response_id]

    def _end(self, error: Exception, *, clean: bool = False) -> None:
        """Nothing more comes; whoever waits is told."""
        self._ended = self._ended or error
        self._events.end(None if clean else error)
        self._responses.end(None if clean else error)
        for response in self._open.values():
            response.finish()
        self._open.clear()
        self._arrived.set()

    @abstractmethod
    async def _connect(self) -> None:
        """Open the transport and begin to hand events to `_take`."""

    @abstractmethod
    async def _transmit(self, event: dict[str, Any]) -> None:
        """Send one event, or raise `DuplexConnectionError`."""

    @abstractmethod
    async def _disconnect(self) -> None:
        """Drop the transport; safe to call twice."""


class DuplexClient(DuplexClientBase):
    """A session over a websocket, an async context manager."""

    def __init__(
        self,
        url: str,
        *,
        model: str,
        config: SessionConfig | None = None,
        reconnect: ReconnectPolicy | None = None,
        heartbeat_interval_s: float | None = 30.0,
        handshake_timeout_s: float = 30.0,
        api_key: str | None = None,
    ) -> None:
        super().__init__(model=model, config=config, handshake_timeout_s=handshake_timeout_s)
        self.url = build_realtime_url(url, model)
        self._reconnect = reconnect or ReconnectPolicy()
        self._heartbeat_interval_s = heartbeat_interval_s
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._http: aiohttp.ClientSession | None = None
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> DuplexClient:
        await super().__aenter__()
        return self

    async def _connect(self) -> None:
        self._http = aiohttp.ClientSession(headers=self._headers)
        attempt = 0
        while self._socket is None:
            try:
                self._socket = await self._http.ws_connect(self.url, max_msg_size=MAX_INBOUND_BYTES)
            except aiohttp.ClientError as error:
                attempt += 1
                refused = isinstance(error, aiohttp.WSServerHandshakeError)
                if refused or attempt >= self._reconnect.max_attempts:
                    raise DuplexConnectionError(f"cannot connect: {error}") from error
                await asyncio.sleep(self._reconnect.delay(attempt))
        self._tasks = [asyncio.create_task(self._receive(self._socket), name="duplex.receive")]
        if self._heartbeat_interval_s is not None:
            beat = self._heartbeat(self._heartbeat_interval_s)
            self._tasks.append(asyncio.create_task(beat, name="duplex.heartbeat"))

    async def _receive(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        async for message in socket:
            if message.type is aiohttp.WSMsgType.TEXT:
                self._take(json.loads(message.data))
        self._end(DuplexConnectionError(f"the connection was lost ({socket.close_code})"))

    async def _heartbeat(self, interval_s: float) -> None:
        while self._ended is None:
            await asyncio.sleep(interval_s)
            await self.send({"type": "session.heartbeat"})

    async def _transmit(self, event: dict[str, Any]) -> None:
        if self._socket is None or self._socket.closed:
            raise DuplexConnectionError("not connected")
        try:
            await self._socket.send_str(json.dumps(event))
        except (ConnectionError, RuntimeError) as error:
            raise DuplexConnectionError("the connection was lost") from error

    async def _disconnect(self) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._socket is not None:
            await self._socket.close()
        if self._http is not None:
            await self._http.close()
