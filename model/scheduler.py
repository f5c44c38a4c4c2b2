"""When a step starts and how many rows it computes (contract I2), as pure functions of times.

Knows nothing of threads, devices or audio: the engine hands in what it sees of each live call at
an instant of its own clock, and gets back the instant at which a step may start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from model.core import FRAME_SECONDS

ACTIVE_SECONDS = 2 * FRAME_SECONDS
"""A call that had a frame within this time is waited for."""
PATIENCE_SECONDS = 0.010
"""The longest that a waiting frame is held back for the others."""


@dataclass(frozen=True, slots=True)
class CallTiming:
    """What the scheduler sees of one live call; times are of the engine's clock."""

    waiting_since: float | None = None
    """Arrival of its oldest waiting frame."""
    due: float = 0.0
    """When real time needs that frame: one a frame's length after the last, or on arrival."""
    last_arrival: float | None = None

    def active(self, now: float) -> bool:
        return self.last_arrival is not None and now - self.last_arrival < ACTIVE_SECONDS

    def ahead(self, now: float) -> bool:
        """Its waiting frame is more than a frame ahead of real time; less is mere jitter."""
        return self.due - now > FRAME_SECONDS


def patience(step_p50: float) -> float:
    """How long the oldest waiting frame may wait for the other calls' frames."""
    return max(0.0, min(PATIENCE_SECONDS, FRAME_SECONDS - 2 * step_p50))


def step_start(now: float, calls: Sequence[CallTiming], step_p50: float) -> float | None:
    """The instant a step starts if nothing more arrives; `None` while no frame waits."""
    waiting = [call for call in calls if call.waiting_since is not None]
    if not waiting:
        return None
    if all(call.waiting_since is not None for call in calls if call.active(now)):
        return now
    paced = [call.waiting_since for call in waiting if not call.ahead(now)]
    if paced:
        return min(since for since in paced if since is not None) + patience(step_p50)
    turns_paced = min(call.due for call in waiting) - FRAME_SECONDS
    return min(turns_paced, _gap_between_dues(now, calls, step_p50))


def _gap_between_dues(now: float, calls: Sequence[CallTiming], step_p50: float) -> float:
    """The first instant from `now` on with no other call due within one step."""
    expected = sorted(
        call.last_arrival + FRAME_SECONDS
        for call in calls
        if call.waiting_since is None and call.last_arrival is not None
    )
    start = now
    for due in expected:
        if start <= due <= start + step_p50:
            start = due + PATIENCE_SECONDS
    return start


def rows_computed(live: Sequence[int], rows: int, *, fixed: bool) -> range:
    """One row for a lone call, else all `rows`; always all where the shape is `fixed`."""
    if len(live) == 1 and not fixed:
        return range(live[0], live[0] + 1)
    return range(rows)
