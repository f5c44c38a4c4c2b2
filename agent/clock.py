"""When a room's next frame is due: the lead's frames, or a monotonic clock in their place.

Contract H2 as plain arithmetic on times that are passed in: it owns no timer and no samples.
The clock takes over where the lead is 120 ms silent, and the lead's late frames are discarded
for the frames that the clock has already made, so that nobody is late for ever.
"""

from __future__ import annotations

from dataclasses import dataclass

from model import FRAME_SECONDS

PATIENCE_SECONDS = 0.12
"""How long a lead frame is waited for."""
REPAY_SECONDS = 1.0
"""After the lead's return, how long late frames are discarded."""


@dataclass(slots=True)
class ClockCounters:
    """What the clock added and took away."""

    clocked: int = 0
    """Frames made without the lead."""
    discarded: int = 0
    """Frames of the lead that came after the clock had made theirs."""


class RoomClock:
    """Decides, frame by frame, whether the lead or the monotonic clock goes on."""

    def __init__(self, now: float) -> None:
        self.counters = ClockCounters()
        self.due = now
        """When the clock makes a frame unless a lead frame comes first."""
        self._leading = False
        self._owed = 0
        self._repay_until: float | None = None

    def lead_changed(self, now: float, present: bool) -> None:
        """Another lead, or none. A new one owes nothing: its frames begin now."""
        self._leading = present
        self._owed = 0
        self._repay_until = None
        if present:
            self.due = max(self.due, now + PATIENCE_SECONDS)

    def lead_frame(self, now: float) -> bool:
        """A frame of the lead has come: True to use it, False to discard it."""
        if self._owed and self._repay_until is None:
            self._repay_until = now + REPAY_SECONDS
        if self._owed and self._repay_until is not None and now < self._repay_until:
            self._owed -= 1
            self.counters.discarded += 1
            return False
        self._owed = 0
        self._repay_until = None
        self.due = now + PATIENCE_SECONDS
        return True

    def tick(self, now: float) -> bool:
        """True where the clock has to make a frame now; never two for one stall."""
        if now < self.due:
            return False
        self.counters.clocked += 1
        if self._leading and self._repay_until is None:
            self._owed += 1
        self.due += FRAME_SECONDS
        if self.due <= now:
            self.due = now + FRAME_SECONDS
        return True
