"""A session's output as server events: the one place that knows their order and their shapes.

Implements `Sink`. It hands ready events to `send`; websocket, data channel and in-process client
differ only in what they do there.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from agent.errors import SessionError
from agent.realtime import server_events as out
from agent.realtime.audio import AudioFormat, Encoder
from agent.realtime.conversation import Conversation, Item, Playback, item_id_of
from agent.realtime.encoded import Encoded, dump_json, encode
from agent.sink import OutputFrame, ResponseEnd, ResponseInfo
from model import FRAME_SECONDS, SAMPLE_RATE

VLLM_OMNI = {
    "runtime_impl": "scheduler_data_plane",
    "uses_model_runner_scheduler": True,
    "runner_kv_backed": True,
    "owned_runtime": False,
}
"""Values that drivers of the protocol check; docs/realtime.md says what each means here."""

VENDOR_METADATA = "duplex_event"
"""The entry of a response's metadata that is the server's."""


class Send(Protocol):
    """Takes a finished event as text; `audio` marks the ones that count as waiting audio frames."""

    def __call__(self, text: str, *, audio: bool = False) -> None: ...


@dataclass(slots=True)
class _Shown:
    """The response that the client sees as open."""

    info: ResponseInfo
    encoder: Encoder | None
    playback: Playback
    previous_item_id: str | None = None
    frames: int = 0
    characters: int = 0

    @property
    def milliseconds(self) -> int:
        return round(self.frames * FRAME_SECONDS * 1000)

    @property
    def part(self) -> dict[str, Any]:
        return {"response_id": self.info.id, "item_id": item_id_of(self.info.id)}


class Projection:
    """The wire side of one session."""

    def __init__(self, send: Send, conversation: Conversation, *, vendor_metadata: bool) -> None:
        self.session_id = ""
        self.output_format = AudioFormat("pcm16", SAMPLE_RATE)
        self.audio_on_track = False
        """Audio goes out as RTP; only the words are events."""
        self.on_frame: Callable[[OutputFrame], None] = lambda frame: None
        self.on_cancelled: Callable[[], None] = lambda: None
        self.on_closed: Callable[[str], None] = lambda reason: None
        self.seq = 0
        self._send = send
        self._conversation = conversation
        self._vendor_metadata = vendor_metadata
        self._announced = False
        self._shown: _Shown | None = None
        self._metadata: Mapping[str, Any] = {}
        self._encoded_metadata = self._metadata_of({})

    def emit(self, event: out.ServerEvent, *, audio: bool = False, numbered: bool = True) -> None:
        """Stamp and send."""
        body = event.model_dump()
        body["event_id"] = f"event_{uuid.uuid4().hex}"
        if numbered:
            self.seq += 1
            body["server_event_seq"] = self.seq
        self._send(dump_json(body), audio=audio)

    def created(self, session: Encoded) -> None:
        self._announced = True
        self.emit(out.SessionCreated(session=session), numbered=False)
        self.emit(out.SessionUpdated(session=session))

    def keep_metadata(self, metadata: Mapping[str, Any]) -> None:
        """The session's, for responses that bring none of their own."""
        if metadata is not self._metadata:
            self._metadata, self._encoded_metadata = metadata, self._metadata_of(metadata)

    def item_added(self, item: Item, after: str | None = None) -> str | None:
        """Announce an item under both of its names; the id of the one before it."""
        previous = self._conversation.add(item, after)
        self._item("conversation.item.added", previous, item)
        self._item("conversation.item.created", previous, item)
        return previous

    def item_done(self, previous: str | None, item: Item) -> None:
        self._item("conversation.item.done", previous, item)

    def _item(
        self,
        name: Literal[
            "conversation.item.added", "conversation.item.created", "conversation.item.done"
        ],
        previous: str | None,
        item: Item,
    ) -> None:
        self.emit(out.ItemEvent(type=name, previous_item_id=previous, item=item.json))

    # Sink.

    def bound(self, epoch: int, prefill_positions: int) -> None:
        """Nothing on the wire: the first frame says it."""

    def response_started(self, response: ResponseInfo) -> None:
        encoder = None if self.audio_on_track else Encoder(self.output_format)
        shown = _Shown(response, encoder, self._conversation.play(response.id))
        self._shown = shown
        body = self._response(response, "in_progress", None, [])
        self.emit(out.ResponseCreated(response_id=response.id, response=body))
        item = Item.of(_message(response.id, "in_progress", []))
        shown.previous_item_id = self.item_added(item)
        self.emit(
            out.OutputItem(
                type="response.output_item.added", response_id=response.id, item=item.json
            )
        )
        part = {"type": "audio", "transcript": ""}
        self.emit(out.ContentPart(type="response.content_part.added", part=part, **shown.part))
        about = {"session_id": self.session_id, "epoch": response.epoch, "model_speak": True}
        self.emit(out.ResponseSpeak(metadata={**about, "vllm_omni": VLLM_OMNI}, **shown.part))

    def output(self, frame: OutputFrame) -> None:
        shown = self._shown
        if shown is None or frame.response_id != shown.info.id:
            return
        shown.frames += 1
        shown.playback.sent(shown.milliseconds)
        self.on_frame(frame)
        if shown.encoder is not None:
            self._audio(shown, shown.encoder.encode(frame.pcm), frame.text, shown.encoder.format)
        self.emit(out.TranscriptDelta(delta=frame.text, **shown.part))

    def response_done(self, end: ResponseEnd) -> None:
        shown, self._shown = self._shown, None
        assert shown is not None and shown.info.id == end.id
        if end.status == "cancelled":
            self.on_cancelled()
        self.emit(out.AudioDone(**shown.part))
        if end.transcript:
            self.emit(out.TranscriptDone(transcript=end.transcript, **shown.part))
        part = {"type": "audio", "transcript": end.transcript}
        self.emit(out.ContentPart(type="response.content_part.done", part=part, **shown.part))
        content = {
            "type": "output_audio",
            "transcript": end.transcript,
            "audio_duration_ms": shown.milliseconds,
        }
        message = _message(end.id, end.status, [content])
        item = Item.of(message)
        self._conversation.update(item)
        self.emit(
            out.OutputItem(type="response.output_item.done", response_id=end.id, item=item.json)
        )
        self.item_done(shown.previous_item_id, item)
        details = {"type": end.status, "reason": end.reason} if end.reason else None
        body = self._response(shown.info, end.status, details, [message])
        self.emit(out.ResponseDone(response_id=end.id, response=body))
        self.emit(out.RateLimits())

    def error(self, error: SessionError) -> None:
        self.emit(out.ErrorEvent(error=error.payload()))

    def closed(self, reason: str, expired: bool) -> None:
        if self._announced and expired:
            self.emit(out.SessionExpired(session_id=self.session_id, reason=reason))
        elif self._announced:
            self.emit(out.SessionClosed(session_id=self.session_id, reason=reason))
        self.on_closed(reason)

    # Shapes.

    def _audio(self, shown: _Shown, data: bytes, text: str, sent_as: AudioFormat) -> None:
        shown.characters += len(text)
        marks = [{"text_chars": shown.characters, "audio_end_ms": shown.milliseconds}]
        metadata = {
            "session_id": self.session_id,
            "epoch": shown.info.epoch,
            "model_speak": True,
            "end_of_turn": False,
            "playback": shown.playback.wire(),
            "audio_duration_ms": shown.milliseconds,
            "audio_text_marks": marks if text else [],
            "vllm_omni": VLLM_OMNI,
        }
        event = out.AudioDelta(
            delta=base64.b64encode(data).decode(),
            format=sent_as.encoding,
            sample_rate_hz=sent_as.rate,
            metadata=metadata,
            **shown.part,
        )
        self.emit(event, audio=True)

    def _response(
        self,
        info: ResponseInfo,
        status: str,
        details: dict[str, Any] | None,
        output: list[dict[str, Any]],
    ) -> Encoded:
        own = info.metadata is None
        metadata = self._encoded_metadata if own else self._metadata_of(info.metadata or {})
        if self._vendor_metadata:
            about = {"session_id": self.session_id, "epoch": info.epoch}
            metadata = metadata.plus(VENDOR_METADATA, about)
        return encode(
            {
                "id": info.id,
                "object": "realtime.response",
                "status": status,
                "status_details": details,
                "output": output,
                "modalities": ["audio", "text"],
                "output_modalities": ["audio"],
                "metadata": metadata,
            }
        )

    def _metadata_of(self, sent: Mapping[str, Any]) -> Encoded:
        """As it was sent, but for the name that our own entry has where there is one."""
        if self._vendor_metadata and VENDOR_METADATA in sent:
            sent = {name: value for name, value in sent.items() if name != VENDOR_METADATA}
        return encode(sent)


def _message(response_id: str, status: str, content: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": item_id_of(response_id),
        "object": "realtime.item",
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": content,
    }
