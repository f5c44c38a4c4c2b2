"""`WS /api/chat`: the moshi protocol over the same sessions, for the clients that exist.

Binary messages, the first byte is the kind: 0 handshake, 1 a piece of one Ogg-Opus stream, 2 text.
What comes before the handshake is kept. Nothing here decides what a session does.
"""

from __future__ import annotations

import logging

import sphn
from aiohttp import WSMsgType, web

from agent.errors import CODES, Refused, SessionError
from agent.manager import SessionManager
from agent.policy import CHAT
from agent.realtime.config import Limits
from agent.realtime.leaving import leave
from agent.realtime.outbox import Outbox
from agent.realtime.socket import WatchedSocket
from agent.session import Session
from agent.sink import OutputFrame, ResponseEnd, ResponseInfo
from model import SAMPLE_RATE, Sampling, SessionSpec

log = logging.getLogger(__name__)

HANDSHAKE, AUDIO, TEXT, ERROR = b"\x00", b"\x01", b"\x02", b"\x05"
SLICE_BYTES = 4096
"""Opus packs minutes of silence into a few bytes; decoded in slices, it meets the bound in time."""
GOING_AWAY, POLICY, INTERNAL, TRY_LATER = 1001, 1008, 1011, 1013


class ChatSink:
    """A session's output as moshi messages."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._writer = sphn.OpusStreamWriter(SAMPLE_RATE)
        self._close_code = GOING_AWAY

    def bound(self, epoch: int, prefill_positions: int) -> None:
        self._outbox.put(HANDSHAKE)

    def response_started(self, response: ResponseInfo) -> None:
        """This protocol knows no responses."""

    def response_done(self, end: ResponseEnd) -> None:
        """This protocol knows no responses."""

    def output(self, frame: OutputFrame) -> None:
        data = self._writer.append_pcm(frame.pcm)
        if data:
            self._outbox.put(AUDIO + data, audio=True)
        if frame.text:
            self._outbox.put(TEXT + frame.text.encode())

    def error(self, error: SessionError) -> None:
        """The specification's error message, and a close code that says whether to come back."""
        self._outbox.put(ERROR + f"{error.code}: {error.message}".encode())
        kind = CODES[error.code].type
        self._close_code = POLICY if kind == "invalid_request_error" else INTERNAL
        if isinstance(error, Refused) and CODES[error.code].retryable:
            self._close_code = TRY_LATER

    def closed(self, reason: str, expired: bool) -> None:
        self._outbox.close(1000 if reason == "disconnect" else self._close_code, reason)

    def refuse(self, error: SessionError) -> None:
        """There is no session to close."""
        self.error(error)
        self._outbox.close(self._close_code, error.code)


def spec_of(request: web.Request, limits: Limits) -> SessionSpec:
    """Voice, persona and seed of the query; an unknown voice is the default voice."""
    voice = request.query.get("voice_prompt", "")
    persona = request.query.get("text_prompt", "").strip()
    return SessionSpec(
        voice=voice if voice in limits.voices else limits.default.voice,
        persona=persona or limits.default.persona,
        sampling=_sampling_of(request, limits),
    )


def _sampling_of(request: web.Request, limits: Limits) -> Sampling | None:
    """A seed counts where the operator allows sampling; -1, or what is no number, is none."""
    text = request.query.get("seed", "")
    if limits.allow_sampling and text.isascii() and text.isdigit() and len(text) <= 18:
        return Sampling(seed=int(text))
    return limits.default.sampling


async def serve_chat(
    request: web.Request, manager: SessionManager, limits: Limits
) -> web.StreamResponse:
    """Until the socket ends; the session is closed then."""
    watched = await WatchedSocket.accept(request)
    session: Session | None = None

    def cut() -> None:
        outbox.close(POLICY, "output_backpressure")
        if session is not None:
            session.close("output_backpressure")

    outbox = Outbox(watched.socket, cut)
    watched.ping = outbox.ping
    sink = ChatSink(outbox)
    try:
        session = manager.open(CHAT, sink, spec_of(request, limits))
        session.bind()
        await _read(watched, session, sink)
    except SessionError as error:
        sink.refuse(error)
    finally:
        await leave(session, outbox, watched, GOING_AWAY)
    return watched.socket


async def _read(watched: WatchedSocket, session: Session, sink: ChatSink) -> None:
    reader = sphn.OpusStreamReader(SAMPLE_RATE)
    async for message in watched.messages():
        session.touch()
        if session.state != "open":
            continue
        if message.type is not WSMsgType.BINARY or message.data[:1] != AUDIO:
            log.debug("a message of an unknown kind is ignored")
            continue
        try:
            _hear(reader, message.data[1:], session)
        except SessionError as error:
            sink.error(error)
            session.close(error.code)


def _hear(reader: sphn.OpusStreamReader, data: bytes, session: Session) -> None:
    for start in range(0, len(data), SLICE_BYTES):
        try:
            samples = reader.append_bytes(data[start : start + SLICE_BYTES])
        except ValueError as error:
            raise SessionError("bad_audio", "this is no Ogg-Opus stream") from error
        session.append(samples)
