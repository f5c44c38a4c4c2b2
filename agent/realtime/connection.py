"""One Realtime connection, whatever carries it: client events in, a session driven, events out.

Websocket, WebRTC data channel and the in-process client feed it decoded messages. It holds the
rules of opening, updating and refusing; the session holds those of audio and time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from agent.errors import SessionError
from agent.manager import SessionManager
from agent.realtime import events as client
from agent.realtime import server_events as out
from agent.realtime.audio import AudioFormat, Decoder, encoding_of, input_rate
from agent.realtime.config import Limits, Mood, SessionConfig
from agent.realtime.conversation import Conversation
from agent.realtime.encoded import Encoded
from agent.realtime.fields import turn_detection_of
from agent.realtime.items import Items
from agent.realtime.projection import Projection, Send
from agent.realtime.session_object import session_object
from agent.realtime.user_speech import UserSpeech, user_speech_for
from agent.session import Session
from model import FRAME_SAMPLES, SAMPLE_RATE

log = logging.getLogger(__name__)


class Connection:
    """A client and, once opened, its session."""

    def __init__(
        self,
        manager: SessionManager,
        mood: Mood,
        limits: Limits,
        send: Send,
        *,
        accepts_create: bool = False,
        brought: Mapping[str, Any] | None = None,
    ) -> None:
        """`brought` is the session object of the client's key, which what it sends updates."""
        self.session: Session | None = None
        conversation = Conversation()
        self.projection = Projection(send, conversation, vendor_metadata=mood.vendor_metadata)
        self._manager = manager
        self._mood = mood
        self._limits = limits
        self._accepts_create = accepts_create
        self._brought = brought or {}
        self._config = SessionConfig(spec=limits.default)
        self._decoder = Decoder()
        self._user_speech: UserSpeech | None = None
        self._items = Items(self.projection, conversation)
        self._handlers = self._table()

    # Opening.

    async def open(
        self, sent: dict[str, Any], *, explicit: bool, event_id: str | None = None
    ) -> None:
        """Take a slot with this session object; raises where that is refused.

        `explicit` is false where the URL opened the session and the client has said nothing yet.
        """
        base = self._config.updated(self._brought, self._mood, self._limits)
        config = base.updated(sent, self._mood, self._limits)
        session = self._manager.open(self._mood.policy, self.projection, config.spec)
        self.session = session
        self.projection.session_id = session.id
        self._take_up(config)
        preparing = session.configure(config.spec, event_id)
        if explicit and config.names_prompt and self._mood.strict_voice:
            await self._bind_now(session, preparing)
        self.projection.created(self._session_object())

    async def _bind_now(self, session: Session, preparing: asyncio.Future[int]) -> None:
        """Voice and persona are fixed at creation: the client learns now if they cannot be."""
        await asyncio.wait([preparing])
        if preparing.cancelled() or preparing.exception() is not None:
            # The session has told the client which error it was.
            session.close("open_failed")
            raise OpenFailed
        session.bind()

    async def first(self, message: dict[str, Any]) -> None:
        """The first message of a connection that its URL did not open."""
        event = client.parse(message)
        if isinstance(event, client.SessionCreate) and not self._accepts_create:
            raise SessionError("unknown_event", "session.create opens sessions on /v1/duplex")
        if isinstance(event, client.SessionResume):
            raise SessionError("unsupported_session_resume", "a call cannot be resumed")
        if isinstance(event, client.SessionUpdate | client.SessionCreate):
            await self.open(event.session, explicit=True, event_id=event.event_id)
        else:
            await self.open({}, explicit=False)
            self._handle(event)

    # Messages.

    def receive(self, message: dict[str, Any]) -> None:
        """Carry out one message; what is wrong with it is answered, and the session goes on."""
        assert self.session is not None
        self.session.touch()
        if self.session.state != "open":
            return
        try:
            self._handle(client.parse(message))
        except SessionError as error:
            error.event_id = client.event_id_of(message)
            self.projection.error(error)
        except Exception:
            self.fail(client.event_id_of(message))

    def fail(self, event_id: str | None = None) -> None:
        """A message broke its handler: the client is told, and its session ends."""
        log.exception("a message broke its handler; the session is closed")
        self.projection.error(mistake(event_id))
        self.close("internal_error")

    def close(self, reason: str) -> None:
        """The connection is gone, or ends."""
        if self.session is not None:
            self.session.close(reason)

    def _handle(self, event: client.AnyClientEvent) -> None:
        self._handlers[type(event)](event)

    def _table(self) -> dict[type, Callable[[Any], None]]:
        return {
            client.SessionUpdate: self._update,
            client.SessionCreate: self._already_open,
            client.SessionResume: self._already_open,
            client.SessionHeartbeat: self._heartbeat,
            client.SessionEventAck: self._event_ack,
            client.SessionClose: lambda event: self.close(event.reason),
            client.InputAppend: self._append,
            client.InputCommit: self._commit,
            client.InputClear: self._clear_input,
            client.InputCancel: self._cancel_input,
            client.OutputClear: self._clear_output,
            client.ResponseCreate: self._create_response,
            client.ResponseCancel: lambda event: self._cancel(event.response_id),
            client.ItemCreate: self._create_item,
            client.ItemRetrieve: lambda event: self._items.retrieve(event.item_id),
            client.ItemDelete: lambda event: self._items.delete(event.item_id),
            client.ItemTruncate: self._items.truncate,
            client.PlaybackAck: lambda event: self._items.acknowledge(event, self._open_session),
            client.TextAppend: self._refuse_text,
            client.BargeIn: self._refuse_barge_in,
            client.TurnSignal: self._turn_signal,
        }

    @property
    def _open_session(self) -> Session:
        assert self.session is not None
        return self.session

    # Session.

    def _update(self, event: client.SessionUpdate) -> None:
        session = self._open_session
        # The session's own voice and persona: a pair that could not be prepared is forgotten.
        base = replace(self._config, spec=session.spec)
        config = base.updated(event.session, self._mood, self._limits)
        self._check_update(session, config)
        changed = config.spec != session.spec
        self._take_up(config)
        if not session.bound and changed:
            session.configure(config.spec, event.event_id)
        self.projection.emit(out.SessionUpdated(session=self._session_object()))

    def _check_update(self, session: Session, config: SessionConfig) -> None:
        """Refuse what is fixed by now; nothing has been changed yet."""
        if self._decoder.format is not None and config.input != self._config.input:
            raise SessionError(
                "bad_event",
                "the input format is fixed by the first audio",
                param="session.audio.input.format",
            )
        models = [one.fields.values.get("model") for one in (self._config, config)]
        if self._mood.strict_voice and models[0] is not None and models[0] != models[1]:
            raise SessionError(
                "model_update_unsupported", "the model is fixed", param="session.model"
            )
        if not session.bound:
            return
        if config.spec.voice != session.spec.voice:
            raise SessionError(
                "voice_update_unsupported", "the voice is fixed", param="session.voice"
            )
        if config.spec.persona != session.spec.persona:
            raise SessionError(
                "persona_update_unsupported",
                "the persona is fixed",
                param="session.instructions",
            )
        if config.spec.sampling != session.spec.sampling:
            raise SessionError(
                "invalid_duplex_runtime_config", "the sampler is fixed", param="session.extra_body"
            )

    def _take_up(self, config: SessionConfig) -> None:
        self._config = config
        self.projection.output_format = config.output
        metadata = config.fields.values.get("metadata")
        self.projection.keep_metadata(metadata if isinstance(metadata, dict) else {})
        self._open_session.adjust(cancel_mode=config.cancel_mode, continuation=config.continuation)
        wanted = user_speech_for(turn_detection_of(config.fields.values))
        if wanted is None or self._user_speech is None:
            self._user_speech = wanted

    def _session_object(self) -> Encoded:
        return session_object(self._open_session, self._config, self._manager.max_sessions)

    def _already_open(self, event: client.SessionCreate | client.SessionResume) -> None:
        if isinstance(event, client.SessionResume):
            raise SessionError("unsupported_session_resume", "a call cannot be resumed")
        raise SessionError("unknown_event", "session.create is a first message only")

    def _heartbeat(self, event: client.SessionHeartbeat) -> None:
        self.projection.emit(out.HeartbeatAck(session_id=self._open_session.id))

    def _event_ack(self, event: client.SessionEventAck) -> None:
        if event.server_event_seq > self.projection.seq:
            raise SessionError("invalid_event_ack", "that event was never sent")

    # Input.

    def _append(self, event: client.InputAppend) -> None:
        wanted = self._format_of(event)
        size = len(event.audio) if isinstance(event.audio, str) else 0
        self._open_session.check_room(_samples_at_most(size, wanted))
        samples = self._decoder.decode(event.audio, wanted)
        self._open_session.append(samples, held_back=size > 0)
        if self._user_speech is not None:
            for label in self._user_speech.hear(samples):
                self.projection.emit(label)

    def _format_of(self, event: client.InputAppend) -> AudioFormat:
        encoding, rate, where = self._config.input.encoding, event.sample_rate_hz, "sample_rate_hz"
        if event.format is not None:
            encoding = encoding_of(event.format, "format")
            if rate is None and isinstance(event.format, dict):
                rate, where = event.format.get("rate"), "format.rate"
        if rate is None:
            return AudioFormat(encoding, self._config.input.rate)
        return AudioFormat(encoding, input_rate(rate, where))

    def _commit(self, event: client.InputCommit) -> None:
        session = self._open_session
        session.commit(final=event.final, tail=self._decoder.flush)
        self._items.committed(session)
        if event.response_create:
            session.create_response(None, event.event_id)

    def _clear_input(self, event: client.InputClear) -> None:
        self._open_session.clear_input()
        self._decoder.flush()
        self.projection.emit(out.InputCleared())

    def _cancel_input(self, event: client.InputCancel) -> None:
        self._clear_input(client.InputClear(type="input_audio_buffer.clear"))
        if self._open_session.responding:
            self._open_session.cancel()

    def _create_item(self, event: client.ItemCreate) -> None:
        item, sound = self._items.check(event)
        for where, audio in sound.items():
            append = client.InputAppend(type="input_audio_buffer.append", audio=audio)
            try:
                self._append(append)
            except SessionError as error:
                error.param = where
                raise
        self._items.create(item, event.previous_item_id)

    # Responses.

    def _create_response(self, event: client.ResponseCreate) -> None:
        metadata = (event.response or {}).get("metadata")
        self._open_session.create_response(
            metadata if isinstance(metadata, dict) else None, event.event_id
        )

    def _cancel(self, response_id: str | None) -> None:
        self._open_session.cancel(response_id=response_id)

    def _clear_output(self, event: client.OutputClear) -> None:
        session = self._open_session
        current = session.response
        self.projection.emit(out.OutputCleared(response_id=current.id if current else None))
        if session.responding:
            session.cancel(reason="output_audio_buffer_clear")

    def _refuse_text(self, event: client.TextAppend) -> None:
        raise SessionError("native_text_append_unsupported", "the model takes no text")

    def _refuse_barge_in(self, event: client.BargeIn) -> None:
        raise SessionError("barge_in_unsupported", "the model hears overlap by itself")

    def _turn_signal(self, event: client.TurnSignal) -> None:
        if event.event == "barge_in":
            raise SessionError("barge_in_unsupported", "the model hears overlap by itself")
        session = self._open_session
        if event.event == "response.cancel":
            session.cancel()
        elif event.event == "input.cancel":
            self._cancel_input(client.InputCancel(type="input.cancel"))
        self.projection.emit(
            out.TurnEvent(
                session_id=session.id,
                event=event.event,
                turn_state="assistant_generating" if session.response else "idle",
                epoch=session.epoch,
            )
        )


class OpenFailed(Exception):
    """Opening failed and the client has been told why."""


def mistake(event_id: str | None = None) -> SessionError:
    error = SessionError("internal_error", "the server made a mistake")
    error.event_id = event_id
    return error


def _samples_at_most(base64_characters: int, wanted: AudioFormat) -> int:
    """Samples at 24 kHz that an append can come to; a resampler may let go of a little more."""
    size = {"pcm16": 2, "pcm_f32le": 4}.get(wanted.encoding, 1)
    samples = base64_characters * 3 // 4 // size
    if wanted.rate == SAMPLE_RATE:
        return samples
    return samples * SAMPLE_RATE // wanted.rate + FRAME_SAMPLES
