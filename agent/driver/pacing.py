"""The sending clock: an 80 ms grid that never bursts and never drifts by overshoot.

Knows nothing of what is sent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from agent.driver.options import FRAME_SECONDS


@dataclass(frozen=True)
class SendTimes:
    """One frame's planned time on the first grid, and when its send began and ended."""

    frame_index: int
    planned_at: float
    started_at: float
    completed_at: float

    @property
    def lateness_ms(self) -> float:
        """Against the original schedule, clipped at zero."""
        return max(0.0, self.started_at - self.planned_at) * 1e3


@dataclass
class Grid:
    """Slots at `start + index * 80 ms`, shifted for good by a send that stalled."""

    start: float
    shift: float = 0.0

    def planned(self, index: int) -> float:
        """On the first grid, which lateness is counted from."""
        return self.start + index * FRAME_SECONDS

    def slot(self, index: int) -> float:
        return self.planned(index) + self.shift

    def completed(self, index: int, at: float) -> None:
        """A send that ends over a frame past the next slot restarts the grid a frame later."""
        overrun = at - self.slot(index + 1)
        if overrun > FRAME_SECONDS:
            self.shift += overrun + FRAME_SECONDS


@dataclass
class PacedSender:
    """Calls `send(index)` for each frame on the grid and keeps the timeline."""

    send: Callable[[int], Awaitable[None]]
    timeline: list[SendTimes] = field(default_factory=list)

    async def run(self, frames: int, start: float) -> None:
        """Send frames 0 to `frames - 1` from `start`, seconds on the monotonic clock."""
        grid = Grid(start)
        for index in range(frames):
            await asyncio.sleep(max(0.0, grid.slot(index) - time.monotonic()))
            started = time.monotonic()
            await self.send(index)
            completed = time.monotonic()
            self.timeline.append(SendTimes(index, grid.planned(index), started, completed))
            grid.completed(index, completed)
