"""Two sides timed call by call in alternation: what this machine does to one it does to both."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch

WARMUPS = 3
ATTEMPTS = 3
TOLERANCE = 0.25
"""Wall and processor time may differ by so much before a measurement is repeated."""


@dataclass
class Side:
    """Seconds of each round of one side."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def run(self, work: Callable[[], object]) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        self.cpu.append(time.process_time() - cpu)
        self.wall.append(time.perf_counter() - wall)


@dataclass(frozen=True)
class Comparison:
    """Milliseconds; `ratio` is reference over ours, by the least of all rounds.

    With one thread that is processor time, which other processes do not lengthen; with several,
    whose waiting would count, wall time.
    """

    ratio: float
    wall_ratio: float
    median_ratio: float
    reference_ms: float
    ours_ms: float
    ours_median_ms: float

    def times(self, count: int) -> Comparison:
        """As if the reference had to run so many times for each of ours."""
        return replace(
            self,
            ratio=count * self.ratio,
            wall_ratio=count * self.wall_ratio,
            median_ratio=count * self.median_ratio,
            reference_ms=count * self.reference_ms,
        )


def compare(reference: Callable[[], object], ours: Callable[[], object], rounds: int) -> Comparison:
    """Alternate the sides; again, at most three times, where wall and processor disagree."""
    for _ in range(ATTEMPTS):
        result = _measure(reference, ours, rounds)
        if abs(result.wall_ratio / result.ratio - 1) <= TOLERANCE:
            break
    return result


def _measure(
    reference: Callable[[], object], ours: Callable[[], object], rounds: int
) -> Comparison:
    for _ in range(WARMUPS):
        reference()
        ours()
    theirs, mine = Side(), Side()
    for _ in range(rounds):
        theirs.run(reference)
        mine.run(ours)
    slow, fast = (
        side.cpu if torch.get_num_threads() == 1 else side.wall for side in (theirs, mine)
    )
    return Comparison(
        ratio=min(slow) / min(fast),
        wall_ratio=min(theirs.wall) / min(mine.wall),
        median_ratio=statistics.median(slow) / statistics.median(fast),
        reference_ms=1000 * min(slow),
        ours_ms=1000 * min(fast),
        ours_median_ms=1000 * statistics.median(fast),
    )
