"""The moods of a session as data: what differs between duplex, stock and room, and nothing else.

One code path in `agent/session.py` reads these fields; no other module branches on a mood's name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

CancelMode = Literal["hard", "soft"]
MoodName = Literal["duplex", "stock", "room", "chat"]


@dataclass(frozen=True, slots=True)
class Continuation:
    """When a pausing client is clocked with silence."""

    grace_s: float
    """How long after the appended audio ran out; a frame late by less is waited for."""
    after_commit: bool
    """Start at once when nothing is left to step after a commit or a `response.create`."""
    linger_s: float | None
    """How long it lasts beyond the last response; none: as `frames_per_pause` says."""
    frames_per_pause: int | None


@dataclass(frozen=True, slots=True)
class Policy:
    """One mood."""

    mood: MoodName
    cut_responses: bool
    """Responses follow the agent's speech; otherwise one stays open for a whole epoch."""
    only_responses: bool
    """Frames outside a response are not sent."""
    cancel_mode: CancelMode
    queue_frames: int
    """Frames that may wait, the session's and the engine's together."""
    drop_oldest: bool
    """On overflow drop the oldest and count it, instead of refusing."""
    in_flight_frames: int
    """Frames handed to the engine and not yet answered, at most."""
    continuation: Continuation | None
    no_input_s: float | None
    idle_s: float | None


STOCK_CONTINUATION = Continuation(0.4, after_commit=True, linger_s=30.0, frames_per_pause=None)
DUPLEX_CONTINUATION = Continuation(0.4, after_commit=False, linger_s=None, frames_per_pause=64)

DUPLEX = Policy(
    mood="duplex",
    cut_responses=False,
    only_responses=False,
    cancel_mode="hard",
    queue_frames=25,
    drop_oldest=False,
    in_flight_frames=25,
    continuation=None,
    no_input_s=30.0,
    idle_s=300.0,
)
STOCK = Policy(
    mood="stock",
    cut_responses=True,
    only_responses=True,
    cancel_mode="soft",
    queue_frames=750,
    drop_oldest=False,
    in_flight_frames=750,
    continuation=STOCK_CONTINUATION,
    no_input_s=30.0,
    idle_s=300.0,
)
ROOM = Policy(
    mood="room",
    cut_responses=True,
    only_responses=False,
    cancel_mode="soft",
    queue_frames=2,
    drop_oldest=True,
    # One: what waits beyond it stays here, where the oldest can be dropped.
    in_flight_frames=1,
    continuation=None,
    no_input_s=None,
    idle_s=None,
)
CHAT = replace(DUPLEX, mood="chat", queue_frames=750, in_flight_frames=750)
"""`/api/chat`: every frame answered, and room for what was said before the handshake."""
WARMUP = replace(CHAT, no_input_s=None, idle_s=None)
