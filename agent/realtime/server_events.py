"""Server events of the Realtime vocabulary, as models that the projection fills.

`event_id` and `server_event_seq` are added when an event is sent (`server_event_seq` is absent on
`session.created`). `docs/api.md` is generated from here.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from agent.realtime.encoded import Encoded


class ServerEvent(BaseModel):
    """Base of every server event."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)


class SessionCreated(ServerEvent):
    """The session holds a slot."""

    type: Literal["session.created"] = "session.created"
    session: Encoded


class SessionUpdated(ServerEvent):
    """Follows `session.created` and every accepted update."""

    type: Literal["session.updated"] = "session.updated"
    session: Encoded


class HeartbeatAck(ServerEvent):
    """Answers `session.heartbeat`."""

    type: Literal["session.heartbeat_ack"] = "session.heartbeat_ack"
    session_id: str


class SessionClosed(ServerEvent):
    """The last event of a session that was closed."""

    type: Literal["session.closed"] = "session.closed"
    session_id: str
    reason: str
    event: dict[str, Any] = Field(default_factory=dict)


class SessionExpired(ServerEvent):
    """The last event of a session from which nothing came for 300 s."""

    type: Literal["session.expired"] = "session.expired"
    session_id: str
    reason: str


class SpeechStarted(ServerEvent):
    """Only where `server_vad` was asked for."""

    type: Literal["input_audio_buffer.speech_started"] = "input_audio_buffer.speech_started"
    audio_start_ms: int
    item_id: str


class SpeechStopped(ServerEvent):
    """Only where `server_vad` was asked for."""

    type: Literal["input_audio_buffer.speech_stopped"] = "input_audio_buffer.speech_stopped"
    audio_end_ms: int
    item_id: str


class InputCommitted(ServerEvent):
    """A commit is acknowledged."""

    type: Literal["input_audio_buffer.committed"] = "input_audio_buffer.committed"
    previous_item_id: str | None
    item_id: str
    event: dict[str, Any]


class InputCleared(ServerEvent):
    """What was not stepped is forgotten."""

    type: Literal["input_audio_buffer.cleared"] = "input_audio_buffer.cleared"


class OutputCleared(ServerEvent):
    """Stop playing; what is open is cancelled next."""

    type: Literal["output_audio_buffer.cleared"] = "output_audio_buffer.cleared"
    response_id: str | None


class ItemEvent(ServerEvent):
    """An item was added (both names are sent) or is complete."""

    type: Literal["conversation.item.added", "conversation.item.created", "conversation.item.done"]
    previous_item_id: str | None
    item: Encoded


class ItemRetrieved(ServerEvent):
    """Answers `conversation.item.retrieve`."""

    type: Literal["conversation.item.retrieved"] = "conversation.item.retrieved"
    item: Encoded


class ItemDeleted(ServerEvent):
    """Answers `conversation.item.delete`."""

    type: Literal["conversation.item.deleted"] = "conversation.item.deleted"
    item_id: str
    event: dict[str, Any] = Field(default_factory=dict)


class ItemTruncated(ServerEvent):
    """Answers `conversation.item.truncate`."""

    type: Literal["conversation.item.truncated"] = "conversation.item.truncated"
    item_id: str
    content_index: int
    audio_end_ms: int
    event: dict[str, Any] = Field(default_factory=dict)


class ResponseCreated(ServerEvent):
    """A response is open."""

    type: Literal["response.created"] = "response.created"
    response_id: str
    response: Encoded


class ResponseDone(ServerEvent):
    """The response is completed, cancelled, incomplete or failed."""

    type: Literal["response.done"] = "response.done"
    response_id: str
    response: Encoded


class OutputItem(ServerEvent):
    """The message of a response begins or is complete."""

    type: Literal["response.output_item.added", "response.output_item.done"]
    response_id: str
    output_index: int = 0
    item: Encoded


class PartEvent(ServerEvent):
    """Base of what belongs to the one audio part of a response."""

    response_id: str
    item_id: str
    output_index: int = 0
    content_index: int = 0


class ContentPart(PartEvent):
    """The audio part begins or is complete."""

    type: Literal["response.content_part.added", "response.content_part.done"]
    part: dict[str, Any]


class ResponseSpeak(PartEvent):
    """Once, before the first delta."""

    type: Literal["response.speak"] = "response.speak"
    metadata: dict[str, Any]


class AudioDelta(PartEvent):
    """One frame of 80 ms."""

    type: Literal["response.output_audio.delta"] = "response.output_audio.delta"
    delta: str
    format: str
    sample_rate_hz: int
    metadata: dict[str, Any]


class AudioDone(PartEvent):
    """No more audio in this response."""

    type: Literal["response.output_audio.done"] = "response.output_audio.done"


class TranscriptDelta(PartEvent):
    """The words of the same frame; may be empty."""

    type: Literal["response.output_audio_transcript.delta"] = (
        "response.output_audio_transcript.delta"
    )
    delta: str


class TranscriptDone(PartEvent):
    """All the words of the response, where there were any."""

    type: Literal["response.output_audio_transcript.done"] = "response.output_audio_transcript.done"
    transcript: str


class PlaybackAcknowledged(ServerEvent):
    """Answers `playback.ack` and a truncation."""

    type: Literal["playback.acknowledged"] = "playback.acknowledged"
    event: dict[str, Any]


class TurnEvent(ServerEvent):
    """Answers `turn.signal`."""

    type: Literal["turn.event"] = "turn.event"
    session_id: str
    event: str
    turn_state: str
    epoch: int


class RateLimits(ServerEvent):
    """Follows every `response.done`."""

    type: Literal["rate_limits.updated"] = "rate_limits.updated"
    rate_limits: list[dict[str, Any]] = Field(default_factory=list)


class ErrorEvent(ServerEvent):
    """A refusal or a failure; docs/realtime.md lists the codes."""

    type: Literal["error"] = "error"
    error: dict[str, Any]
