"""Every error code that this server can send, with its type and its cure, and the exception for it.

`docs/api.md` prints this table, `docs/realtime.md` names its codes, and the tests cause each row
over a real socket. A code that is not here cannot be sent: `SessionError` refuses unknown names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from model import EngineError, PromptTooLong, ResourceExhausted

ErrorType = Literal["invalid_request_error", "server_error", "rate_limit_error"]
Ends = Literal["no", "at open", "at binding", "yes"]
"""Whether the session ends with it.

`at open` where only a failed opening does. `at binding` where voice and persona could not be
prepared by the time they are fixed, in an opening that names them or by the first input.
"""


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """One row of the table."""

    type: ErrorType
    ends: Ends
    cure: str
    retryable: bool = False


def _invalid(cure: str, ends: Ends = "no") -> ErrorCode:
    return ErrorCode("invalid_request_error", ends, cure)


def _server(cure: str, ends: Ends = "yes") -> ErrorCode:
    return ErrorCode("server_error", ends, cure)


def _limit(cure: str, ends: Ends) -> ErrorCode:
    return ErrorCode("rate_limit_error", ends, cure, retryable=True)


CODES: dict[str, ErrorCode] = {
    # The socket and its messages.
    "config_timeout": _invalid("Send the first message within 10 s of connecting.", "at open"),
    "invalid_json": _invalid("Send one JSON object per text frame."),
    "bad_event": _invalid("Correct the field named in `param`.", "at open"),
    "event_too_large": _invalid("Keep each message below 15 MiB and 20,000 values."),
    "unknown_event": _invalid("Use an event of docs/api.md.", "at open"),
    "invalid_event_ack": _invalid("Acknowledge only numbers that were received."),
    "unsupported_session_resume": _invalid("Open a new session; none can be resumed.", "at open"),
    # HTTP requests.
    "invalid_api_key": _invalid("Send one of the server's keys as a bearer token.", "at open"),
    "forbidden_origin": _invalid("Allow the page's origin with --cors-origins.", "at open"),
    "invalid_sdp": _invalid("Send an SDP offer with one audio track.", "at open"),
    "call_not_found": _invalid("Use the Location that the offer was answered with."),
    # Opening and configuring.
    "invalid_session_config": _invalid("Correct the session field named in `param`.", "at open"),
    "invalid_voice": _invalid("Take a voice from GET /v1/voices.", "at binding"),
    "prompt_too_long": _invalid("Shorten the instructions.", "at binding"),
    "prefill_unavailable": _invalid(
        "Check the checkpoint's voice and tokenizer files.", "at binding"
    ),
    "invalid_duplex_runtime_config": _invalid("Leave the private keys out.", "at open"),
    "sampling_not_allowed": _invalid("Ask the operator to allow sampling.", "at open"),
    "voice_update_unsupported": _invalid("Name the voice before the first audio."),
    "persona_update_unsupported": _invalid("Name the instructions before the first audio."),
    "model_update_unsupported": _invalid("Open another session for another model."),
    # Audio.
    "unsupported_audio_format": _invalid(
        "Use pcm16, pcm_f32le or G.711 at 8 to 192 kHz.", "at open"
    ),
    "bad_audio": _invalid("Send strict base64 of whole, finite samples in the declared format."),
    "input_backpressure": _limit("Wait for output, then send the same audio again.", "no"),
    "input_audio_buffer_empty": _invalid("Append audio before the commit."),
    # Responses and items.
    "response_already_active": _invalid("Wait for `response.done` or cancel first."),
    "response_not_active": _invalid("Nothing to cancel; go on."),
    "item_not_found": _invalid("Name an item of this conversation."),
    "item_create_duplicate_item_id": _invalid("Leave the id out, or take one that is new."),
    "playback_item_mismatch": _invalid("Name a response and an item that belong together."),
    "playback_item_not_found": _invalid("Acknowledge a response of this session."),
    # What the model has no input for.
    "native_text_append_unsupported": _invalid("Speak; the model has no text input."),
    "barge_in_unsupported": _invalid("Just talk over the agent, or cancel."),
    # Capacity and faults.
    "resource_exhausted": _limit("Try again when a call has ended.", "at open"),
    "server_draining": _limit("Connect to another server; this one is shutting down.", "at open"),
    "output_backpressure": _server("Read the socket as fast as audio is made."),
    "call_failed": _server("Open a new session; this call alone was lost."),
    "engine_fault": _server("Connect again after the restart."),
    "internal_error": _server("Report it with the server's log."),
}


class SessionError(Exception):
    """A typed refusal or failure, as it goes on the wire."""

    def __init__(self, code: str, message: str, *, param: str | None = None, **extra: Any) -> None:
        super().__init__(message)
        self.entry = CODES[code]
        self.code = code
        self.message = message
        self.param = param
        self.event_id: str | None = None
        """The client event that caused it, where one did."""
        self.extra = extra

    def payload(self) -> dict[str, Any]:
        """The `error` object of an `error` event."""
        body: dict[str, Any] = {
            "type": self.entry.type,
            "code": self.code,
            "message": self.message,
            "param": self.param,
            "event_id": self.event_id,
            **self.extra,
        }
        if self.entry.retryable:
            body["retryable"] = True
        return body


class Refused(SessionError):
    """Not now: no slot, no room for a client secret, shutting down, or the device is gone."""


def refusal(error: EngineError) -> Refused:
    """The engine's refusal in the words of the wire."""
    extra: dict[str, Any] = {}
    if isinstance(error, ResourceExhausted):
        extra = {"current": error.current, "maximum": error.maximum}
    elif isinstance(error, PromptTooLong):
        extra = {"positions": error.positions, "limit": error.limit}
    code = error.code if error.code in CODES else "internal_error"
    return Refused(code, str(error), **extra)
