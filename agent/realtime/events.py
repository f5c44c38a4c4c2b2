"""Client events of the Realtime vocabulary as a discriminated union.

`docs/api.md` is generated from these models and those of `server_events.py`. Fields that this
server does not know are kept out of the way, never refused: stock clients send many.
"""

from __future__ import annotations

import json
import math
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, TypeAdapter, ValidationError

from agent.errors import SessionError

MAX_EVENT_BYTES = 15 * 1024 * 1024
MAX_DEPTH = 64
MAX_PARTS = 20_000
"""Commas and opening brackets in one event, so no fewer values; sound is one string however long.
Many small ones would keep every other call waiting while they are read."""
MAX_EVENT_ID = 512
"""Characters; every error repeats them."""


class ClientEvent(BaseModel):
    """What every client event may carry."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    event_id: str | None = Field(
        default=None, max_length=MAX_EVENT_ID, description="Echoed in `error.event_id`."
    )


class SessionUpdate(ClientEvent):
    """Opens the session as the first message; later changes what may still change."""

    type: Literal["session.update"]
    session: dict[str, Any] = Field(description="The session object, see docs/realtime.md.")


class SessionCreate(ClientEvent):
    """Opens the session on `/v1/duplex`, like a first `session.update`."""

    type: Literal["session.create"]
    session: dict[str, Any] = Field(default_factory=dict)


class SessionResume(ClientEvent):
    """Refused: a call cannot be resumed."""

    type: Literal["session.resume"]


class SessionHeartbeat(ClientEvent):
    """Keeps an idle session; answered by `session.heartbeat_ack`."""

    type: Literal["session.heartbeat"]


class SessionEventAck(ClientEvent):
    """Accepted and ignored up to the last number sent."""

    type: Literal["session.event_ack"]
    server_event_seq: StrictInt = Field(ge=0)


class SessionClose(ClientEvent):
    """Ends the session; answered by `session.closed`."""

    type: Literal["session.close"]
    reason: str = Field(default="client_close", max_length=123)


class InputAppend(ClientEvent):
    """Audio of any length."""

    type: Literal["input_audio_buffer.append"]
    audio: Any = Field(description="Strict base64.")
    format: Any = Field(default=None, description="Else the session's input format.")
    sample_rate_hz: Any = Field(
        default=None, description="8000 to 192000; else the format's, else 24000."
    )


class InputCommit(ClientEvent):
    """Ends a turn: pads and steps what is left; acknowledged, and silence may follow."""

    type: Literal["input_audio_buffer.commit"]
    final: bool = True
    response_create: bool | None = Field(
        default=None, description="True asks for a response as well."
    )


class InputClear(ClientEvent):
    """Forgets audio that was not stepped yet."""

    type: Literal["input_audio_buffer.clear"]


class InputCancel(ClientEvent):
    """Clears the input and cancels what is open."""

    type: Literal["input.cancel"]


class OutputClear(ClientEvent):
    """`output_audio_buffer.cleared`, then what is open is cancelled as by `response.cancel`."""

    type: Literal["output_audio_buffer.clear"]
    response_id: str | None = None


class ResponseCreate(ClientEvent):
    """Asks for a response; in stock mood it is taken up when the audio before it was heard."""

    type: Literal["response.create"]
    response: dict[str, Any] | None = None


class ResponseCancel(ClientEvent):
    """Ends the open response, hard or soft as `extra_body.cancel_mode` says."""

    type: Literal["response.cancel"]
    response_id: str | None = None


class ItemCreate(ClientEvent):
    """Stores an item; its audio parts are appended as input, its text is not read by the model."""

    type: Literal["conversation.item.create"]
    item: dict[str, Any]
    previous_item_id: str | None = Field(
        default=None, description="`root` or an item's id; else the item is the last one."
    )


class ItemRetrieve(ClientEvent):
    """Answers with the item."""

    type: Literal["conversation.item.retrieve"]
    item_id: str


class ItemDelete(ClientEvent):
    """Removes an item from the history kept here; the model's memory stays."""

    type: Literal["conversation.item.delete"]
    item_id: str


class ItemTruncate(ClientEvent):
    """Notes how much of an answer was heard; the model is not rewound."""

    type: Literal["conversation.item.truncate"]
    item_id: str
    audio_end_ms: float = Field(ge=0, le=1e12)
    content_index: StrictInt = Field(default=0, ge=0)


class PlaybackAck(ClientEvent):
    """Notes what has been played; monotone, state is never rewound."""

    type: Literal["playback.ack"]
    played_ms: float = Field(ge=0, le=1e12)
    committed_ms: float | None = Field(default=None, ge=0, le=1e12)
    response_id: str | None = None
    item_id: str | None = None
    truncate: bool = False


class TextAppend(ClientEvent):
    """Refused: the model has no text input."""

    type: Literal["input.text.append"]


class BargeIn(ClientEvent):
    """Refused: overlap is the model's own affair."""

    type: Literal["barge_in"]


class TurnSignal(ClientEvent):
    """Acknowledged by `turn.event`; the model takes no external turn signal."""

    type: Literal["turn.signal"]
    event: str


AnyClientEvent = Annotated[
    SessionUpdate
    | SessionCreate
    | SessionResume
    | SessionHeartbeat
    | SessionEventAck
    | SessionClose
    | InputAppend
    | InputCommit
    | InputClear
    | InputCancel
    | OutputClear
    | ResponseCreate
    | ResponseCancel
    | ItemCreate
    | ItemRetrieve
    | ItemDelete
    | ItemTruncate
    | PlaybackAck
    | TextAppend
    | BargeIn
    | TurnSignal,
    Field(discriminator="type"),
]
_ADAPTER: TypeAdapter[AnyClientEvent] = TypeAdapter(AnyClientEvent)

TYPE_ALIASES = {
    "input.commit": "input_audio_buffer.commit",
    "audio.playback_ack": "playback.ack",
    "close": "session.close",
    "close_session": "session.close",
    "input_text.append": "input.text.append",
    "push_text": "input.text.append",
    "push_chunk": "input_audio_buffer.append",
    "input.audio.append": "input_audio_buffer.append",
    "signal_turn": "turn.signal",
}
_FIELD_ALIASES = {
    "input_audio_buffer.append": {
        "delta": "audio",
        "input_audio_format": "format",
        "sample_rate": "sample_rate_hz",
    },
    "input_audio_buffer.commit": {"create_response": "response_create"},
}


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    """Beyond what a float can hold is infinity, which could not be echoed as JSON."""
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text} is too large")
    return value


def load_json(text: str | bytes) -> dict[str, Any]:
    """One JSON object, or `event_too_large` or `invalid_json`."""
    if len(text) > MAX_EVENT_BYTES:
        raise SessionError("event_too_large", f"an event has at most {MAX_EVENT_BYTES} bytes")
    if _parts(text) > MAX_PARTS:
        raise SessionError("event_too_large", f"an event has at most {MAX_PARTS} values")
    try:
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise SessionError("invalid_json", "the message is not valid JSON") from error
    if not isinstance(value, dict):
        raise SessionError("invalid_json", "the message is not a JSON object")
    if _deeper_than(value, MAX_DEPTH):
        raise SessionError("invalid_json", f"the message nests deeper than {MAX_DEPTH}")
    return value


def _parts(text: str | bytes) -> int:
    """No fewer than the values in this JSON text, found without reading it."""
    if isinstance(text, bytes):
        return sum(map(text.count, (b",", b"[", b"{")))
    return sum(map(text.count, ",[{"))


def _deeper_than(value: object, depth: int) -> bool:
    """Too deep to be echoed safely."""
    if isinstance(value, dict):
        return depth == 0 or any(_deeper_than(part, depth - 1) for part in value.values())
    if isinstance(value, list):
        return depth == 0 or any(_deeper_than(part, depth - 1) for part in value)
    return False


def event_id_of(message: dict[str, Any]) -> str | None:
    """The client's own id, where it is one that can be echoed."""
    value = message.get("event_id")
    return value if isinstance(value, str) and len(value) <= MAX_EVENT_ID else None


def parse(message: dict[str, Any]) -> AnyClientEvent:
    """A typed event, or `unknown_event` or `bad_event` with the client's event id."""
    name = message.get("type")
    if not isinstance(name, str):
        raise SessionError("bad_event", "type must be a string", param="type")
    name = TYPE_ALIASES.get(name, name)
    message = {**message, "type": name}
    for alias, field_name in _FIELD_ALIASES.get(name, {}).items():
        if message.get(field_name) is None and message.get(alias) is not None:
            message[field_name] = message[alias]
    if name == "session.update" and "session" not in message:
        message["session"] = {
            key: value for key, value in message.items() if key not in ("type", "event_id")
        }
    try:
        return _ADAPTER.validate_python(message)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        if first["type"] == "union_tag_invalid":
            raise SessionError("unknown_event", "this event type is not known") from error
        where = ".".join(str(part) for part in first["loc"][1:])
        raise SessionError("bad_event", f"{where}: {first['msg']}", param=where) from error
