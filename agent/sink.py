"""What a transport implements to receive a session's output, and the plain data it receives.

Every method of `Sink` is called on the session's own event loop, in order, and must not block.
Nothing here knows a transport or the engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from agent.errors import SessionError
from model import Pcm

ResponseStatus = Literal["completed", "cancelled", "incomplete", "failed"]


@dataclass(frozen=True, slots=True)
class OutputFrame:
    """One stepped frame: what the agent says in these 80 ms."""

    epoch: int
    seq: int
    position: int
    pcm: Pcm
    """1920 float32 samples at 24 kHz; zeros in rooms while the call is held."""
    text: str
    text_token: int
    continuation: bool
    """True where the input was made by a clock (silence continuation, a room's missing lead)."""
    held: bool
    """True while a soft cancel keeps the model silent."""
    response_id: str | None
    accepted_at: float
    """Loop time at which the input of this frame was complete."""
    delivered_at: float
    """Loop time at which the result reached the loop."""
    heard: Pcm
    """The input of this step, 1920 samples: what the model heard while it said this."""


@dataclass(frozen=True, slots=True)
class ResponseInfo:
    """An open response, as announced."""

    id: str
    epoch: int
    requested: bool
    """True where the client asked for it, false where the agent began to speak by itself."""
    metadata: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class ResponseEnd:
    """How a response ended; `reason` is empty where it simply was completed."""

    id: str
    epoch: int
    status: ResponseStatus
    reason: str
    transcript: str
    frames: int


class Sink(Protocol):
    """The receiving end of one session."""

    def bound(self, epoch: int, prefill_positions: int) -> None:
        """The prefill of this epoch is in place."""
        ...

    def response_started(self, response: ResponseInfo) -> None: ...

    def output(self, frame: OutputFrame) -> None: ...

    def response_done(self, end: ResponseEnd) -> None: ...

    def error(self, error: SessionError) -> None:
        """Something failed outside a call of a session's method; the session may go on."""
        ...

    def closed(self, reason: str, expired: bool) -> None:
        """Exactly once, and nothing after it. The slot has gone back, or its cleanup is retried."""
        ...
