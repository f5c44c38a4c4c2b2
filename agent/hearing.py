"""From several tracks to one stream of session frames: lead, rings, clock (contract H2).

Keys name tracks, times are passed in, frames go out through a callback; it knows no LiveKit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from agent.clock import RoomClock
from agent.mixer import Ring, mix
from model import FRAME_SAMPLES, Pcm

Push = Callable[[Pcm, bool], None]
"""Takes one session frame and whether the clock made it."""


@dataclass(slots=True)
class HearingCounters:
    """Where every frame came from and went."""

    frames_in: int = 0
    """Frames of all audio streams."""
    lead_frames: int = 0
    """Those of them that came on the lead's track."""
    mixed: int = 0
    """Frames of other tracks that went into rings."""
    ring_dropped: int = 0
    """Samples that rings had too many."""
    ring_missing: int = 0
    """Samples that rings had too few."""
    made: int = 0
    """Session frames."""


class Hearing:
    """The room's ear. `add`, `frame` and `remove` per track; `tick` when `clock.due` has come."""

    def __init__(self, push: Push, now: float) -> None:
        self.clock = RoomClock(now)
        self.counters = HearingCounters()
        self._push = push
        self._tracks: dict[str, Ring] = {}

    @property
    def lead(self) -> str | None:
        """The earliest track that lives."""
        return next(iter(self._tracks), None)

    def add(self, track: str, now: float) -> None:
        self._tracks[track] = Ring()
        if self.lead == track:
            self.clock.lead_changed(now, present=True)

    def remove(self, track: str, now: float) -> None:
        """A track ended; where it was the lead, the next takes over with what comes from now on."""
        if track not in self._tracks:
            return
        led = self.lead == track
        self._retire(self._tracks.pop(track))
        if not led:
            return
        successor = self.lead
        if successor is not None:
            self._retire(self._tracks[successor])
            self._tracks[successor] = Ring()
        self.clock.lead_changed(now, present=successor is not None)

    def frame(self, track: str, pcm: Pcm, now: float) -> None:
        """One frame of a track, `[1920]`."""
        if track not in self._tracks:
            return
        self.counters.frames_in += 1
        if track != self.lead:
            self.counters.mixed += 1
            self._tracks[track].push(pcm)
            return
        self.counters.lead_frames += 1
        if self.clock.lead_frame(now):
            self._make(pcm, clocked=False)

    def tick(self, now: float) -> None:
        """Make the frame that the lead owes, if it is due."""
        if self.clock.tick(now):
            self._make(np.zeros(FRAME_SAMPLES, np.float32), clocked=True)

    def totals(self) -> HearingCounters:
        """The counters with those of the rings that still run; any thread may ask."""
        # One look at the tracks, since their own thread may change them meanwhile.
        rings = list(self._tracks.values())
        total = replace(self.counters)
        total.ring_dropped += sum(ring.dropped for ring in rings)
        total.ring_missing += sum(ring.missing for ring in rings)
        return total

    def _make(self, lead: Pcm, clocked: bool) -> None:
        others = [ring for track, ring in self._tracks.items() if track != self.lead]
        self.counters.made += 1
        self._push(mix([lead, *(ring.pop() for ring in others)]), clocked)

    def _retire(self, ring: Ring) -> None:
        self.counters.ring_dropped += ring.dropped + len(ring)
        self.counters.ring_missing += ring.missing
