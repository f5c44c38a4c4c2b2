"""`POST /v1/realtime/calls`: a Realtime session over WebRTC, for browsers without a LiveKit server.

Audio travels as RTP, events on a data channel. The session and its events are those of the
websocket's stock mood; only what carries them differs.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiortc import (
    MediaStreamTrack,
    RTCConfiguration,
    RTCDataChannel,
    RTCPeerConnection,
    RTCSessionDescription,
)
from aiortc.exceptions import InvalidStateError
from aiortc.mediastreams import MediaStreamError
from av import AudioFrame

from agent.auth import ClientSecrets, key_of
from agent.endings import to_the_end
from agent.errors import Refused, SessionError
from agent.framing import Samples
from agent.http_errors import busy_response, error_response
from agent.manager import SessionManager
from agent.realtime.config import STOCK_MOOD, Limits
from agent.realtime.connection import Connection
from agent.realtime.events import load_json
from agent.realtime.outbox import MAX_AUDIO_FRAMES
from agent.realtime.track import AgentTrack, HeardTrack
from agent.sink import OutputFrame

log = logging.getLogger(__name__)

MAX_WAITING_EVENTS = 1_000
MAX_SDP_BYTES = 128 * 1024
MAX_CANDIDATES = 100
"""The WebRTC library orders all pairs anew with each: a thousand would keep every call waiting."""
BROKEN_FORMS = (ValueError, HttpProcessingError, AssertionError, LookupError, RuntimeError)
"""What aiohttp's reader raises at multipart bodies that are cut off or name unknown encodings."""
GATHER_PATIENCE_S = 10.0
CLOSE_PATIENCE_S = 5.0
LOOK_EVERY_S = 5.0
VANISHED_S = 15.0
"""Nothing received for so long, found at the next look: a live peer reports every few seconds."""


class Call:
    """One peer connection and its session."""

    def __init__(
        self, manager: SessionManager, limits: Limits, brought: Mapping[str, Any] | None = None
    ) -> None:
        """`brought` is the session object of the client's key."""
        self.id = f"rtc_{uuid.uuid4().hex}"
        # No STUN server: nothing outside is asked for our address.
        self.peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self.connection = Connection(manager, STOCK_MOOD, limits, self._send, brought=brought)
        self.ended = asyncio.Event()
        self._track = AgentTrack()
        self._channel: RTCDataChannel | None = None
        self._waiting: deque[str] = deque(maxlen=MAX_WAITING_EVENTS)
        self._hearing: asyncio.Task[None] | None = None
        self._received = 0
        self._received_at = asyncio.get_running_loop().time()
        projection = self.connection.projection
        projection.audio_on_track = True
        projection.on_frame = self._say
        projection.on_cancelled = self._track.hush
        projection.on_closed = lambda reason: self.ended.set()
        self.peer.on("track", self._on_track)
        self.peer.on("datachannel", self._on_channel)
        self.peer.on("connectionstatechange", self._on_state)

    @property
    def path(self) -> str:
        """Where it is hung up."""
        return f"/v1/realtime/calls/{self.id}"

    async def answer(self, offer: str, session: dict[str, Any]) -> str:
        """Admit, negotiate; the SDP answer. Raises `SessionError`."""
        await self.connection.open(session, explicit=False)
        try:
            await self.peer.setRemoteDescription(RTCSessionDescription(offer, "offer"))
            audio = [one for one in self.peer.getTransceivers() if one.kind == "audio"]
            if len(audio) != 1:
                raise SessionError("invalid_sdp", "the offer needs one audio track")
            self.peer.addTrack(self._track)
            async with asyncio.timeout(GATHER_PATIENCE_S):
                await self.peer.setLocalDescription(await self.peer.createAnswer())
        except SessionError:
            raise
        except Exception as error:
            # A hostile or broken offer fails anywhere inside the WebRTC library.
            log.info("an offer was refused: %s", type(error).__name__)
            raise SessionError("invalid_sdp", "the offer cannot be answered") from error
        return str(self.peer.localDescription.sdp)

    async def end(self, reason: str) -> None:
        """Close session and transport; safe to call twice."""
        self.connection.close(reason)
        await to_the_end(self._end())

    async def _end(self) -> None:
        if self.connection.session is not None:
            await self.connection.session.wait_closed()
        self.ended.set()
        if self._hearing is not None:
            self._hearing.cancel()
            await asyncio.wait([self._hearing])
        self._track.stop()
        try:
            async with asyncio.timeout(CLOSE_PATIENCE_S):
                await self.peer.close()
        except (AttributeError, TimeoutError) as error:
            # An offer can leave the library parts without a transport, which it fails to stop;
            # asked a second time, it waits for the first.
            log.info("a peer was not closed in order: %s", type(error).__name__)

    async def look(self) -> None:
        """Close the session of a peer that is gone: neither sound nor reports nor messages come.

        ICE would find it too, ten seconds later.
        """
        stats = (await self.peer.getStats()).values()
        received = sum(one.packetsReceived for one in stats if one.type == "transport")
        now = asyncio.get_running_loop().time()
        if received != self._received:
            self._received, self._received_at = received, now
        elif now - self._received_at >= VANISHED_S:
            self.connection.close("disconnect")

    # The peer connection's events.

    def _on_track(self, track: MediaStreamTrack) -> None:
        if track.kind == "audio" and self._hearing is None:
            self._hearing = asyncio.get_running_loop().create_task(self._hear(track))

    def _on_channel(self, channel: RTCDataChannel) -> None:
        self._channel = channel
        channel.on("message", self._on_message)
        while self._waiting:
            channel.send(self._waiting.popleft())

    def _on_state(self) -> None:
        if self.peer.connectionState in ("failed", "closed"):
            self.connection.close("disconnect")

    def _on_message(self, message: str | bytes) -> None:
        try:
            self.connection.receive(load_json(message))
        except SessionError as error:
            self.connection.projection.error(error)

    async def _hear(self, track: MediaStreamTrack) -> None:
        """Until the track ends; a bug on the way ends the session, rather than deafening it."""
        heard = HeardTrack()
        try:
            while True:
                frame = await track.recv()
                if isinstance(frame, AudioFrame):
                    self._take(heard.samples(frame))
        except MediaStreamError:
            self.connection.close("disconnect")
        except Exception:
            self.connection.fail()

    def _take(self, sound: Iterable[Samples]) -> None:
        session = self.connection.session
        assert session is not None
        session.touch()
        for samples in sound:
            try:
                session.append(samples)
            except SessionError:
                # Counted by the session. A microphone cannot be told to wait.
                log.debug("a packet was refused, too much waits")

    # Going out.

    def _say(self, frame: OutputFrame) -> None:
        self._track.say(frame.pcm)

    def _send(self, text: str, *, audio: bool = False) -> None:
        channel = self._channel
        if channel is None:
            self._waiting.append(text)
            return
        if channel.bufferedAmount > MAX_AUDIO_FRAMES * 8192:
            self.connection.close("output_backpressure")
            return
        try:
            channel.send(text)
        except InvalidStateError:
            self.connection.close("disconnect")


class Calls:
    """The calls of one server."""

    def __init__(self, manager: SessionManager, limits: Limits, secrets: ClientSecrets) -> None:
        self._manager = manager
        self._limits = limits
        self._secrets = secrets
        self._live: dict[str, Call] = {}
        self._watchers: set[asyncio.Task[None]] = set()

    async def create(self, request: web.Request) -> web.Response:
        """`application/sdp`, or multipart `sdp` and `session`; 201 with the answer."""
        try:
            # Before the body comes: the key may expire meanwhile.
            brought = self._secrets.session_of(key_of(request))
            offer, session = await _offer(request)
            call = Call(self._manager, self._limits, brought)
            try:
                answer = await call.answer(offer, session)
            except BaseException:
                await call.end("open_failed")
                raise
        except Refused as error:
            return busy_response(error)
        except SessionError as error:
            return error_response(400, error)
        self._live[call.id] = call
        self._secrets.adopt(key_of(request), call.path)
        watcher = asyncio.get_running_loop().create_task(self._watch(call))
        self._watchers.add(watcher)
        watcher.add_done_callback(self._watchers.discard)
        return web.Response(
            status=201, text=answer, content_type="application/sdp", headers={"Location": call.path}
        )

    async def hang_up(self, request: web.Request) -> web.Response:
        call = self._live.get(request.match_info["call_id"])
        if call is None:
            return error_response(404, SessionError("call_not_found", "no such call"))
        await call.end("client_close")
        return web.Response(status=200 if request.method == "POST" else 204)

    async def close_all(self) -> None:
        for call in list(self._live.values()):
            await call.end("shutdown")

    async def _watch(self, call: Call) -> None:
        """Take the call down when its session has ended, for whatever reason."""
        try:
            while not call.ended.is_set():
                try:
                    await asyncio.wait_for(call.ended.wait(), LOOK_EVERY_S)
                except TimeoutError:
                    await call.look()
        finally:
            self._live.pop(call.id, None)
            self._secrets.release(call.path)
            await call.end("closed")


async def _offer(request: web.Request) -> tuple[str, dict[str, Any]]:
    """The SDP and the session object."""
    model = request.query.get("model")
    session: dict[str, Any] = {"model": model} if model else {}
    if request.content_type == "application/sdp":
        return _sdp_of(await request.read()), session
    if request.content_type != "multipart/form-data":
        raise SessionError("invalid_sdp", "send application/sdp or multipart/form-data")
    try:
        form = await request.post()
    except BROKEN_FORMS as error:
        raise SessionError("invalid_sdp", "the multipart body is broken") from error
    sent = _field(form.get("session"))
    if sent:
        session |= load_json(sent)
    return _sdp_of(_field(form.get("sdp"))), session


def _field(value: Any) -> bytes:
    """A form field, whether it was sent as text or as a file."""
    if value is None:
        return b""
    if isinstance(value, web.FileField):
        return value.file.read()
    return value.encode() if isinstance(value, str) else bytes(value)


def _sdp_of(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise SessionError("invalid_sdp", "the offer is no text") from error
    if not text.startswith("v=0") or "a=fingerprint:" not in text or len(data) > MAX_SDP_BYTES:
        raise SessionError("invalid_sdp", "the body is no SDP offer", param="sdp")
    if text.count("a=candidate:") > MAX_CANDIDATES:
        raise SessionError(
            "invalid_sdp", f"an offer has at most {MAX_CANDIDATES} candidates", param="sdp"
        )
    return text
