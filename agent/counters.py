"""The account of a session's frames. Plain numbers; the session alone writes them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    """What became of every frame of a session."""

    accepted: int = 0
    """Whole frames taken from the client or the room, clock frames included."""
    clocked: int = 0
    """Accepted frames that a clock made: silence continuation, a room's missing lead."""
    submitted: int = 0
    stepped: int = 0
    emitted: int = 0
    withheld: int = 0
    """Stepped, and not sent because no response was open."""
    dropped_overflow: int = 0
    dropped_cancel: int = 0
    """In the engine's queue when a hard cancel ended their epoch."""
    dropped_close: int = 0
    rolled_back: int = 0
    refused: int = 0
    """Appends refused whole."""
    stale: int = 0
    """Results of an old epoch or a repeated identity; never heard."""
    epochs: int = 1
    holds: int = 0
