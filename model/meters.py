"""What the engine counts, and how long its steps take. Written by the engine's thread alone."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field
from typing import TypedDict

from model.core import STEP_BUCKETS_S

RECENT_STEPS = 256


class StepStats(TypedDict):
    """The part of `EngineStats` that is counted here."""

    steps: int
    frames: int
    encoded: int
    prefix_hits: int
    bucket_changes: int
    retried_steps: int
    failed_rows: int
    failed_cleanups: int
    undelivered: int
    step_p50_s: float
    step_p99_s: float
    step_seconds: float
    step_histogram: tuple[int, ...]


@dataclass
class Meters:
    """Counters since the start, and the durations of the most recent steps."""

    steps: int = 0
    frames: int = 0
    encoded: int = 0
    prefix_hits: int = 0
    bucket_changes: int = 0
    retried_steps: int = 0
    failed_rows: int = 0
    undelivered: int = 0
    failed_cleanups: int = 0
    step_seconds: float = 0.0
    histogram: list[int] = field(default_factory=lambda: [0] * (len(STEP_BUCKETS_S) + 1))
    p50_s: float = 0.0
    p99_s: float = 0.0
    _recent: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT_STEPS))

    def step_took(self, seconds: float, rows: int) -> None:
        self.steps += 1
        self.encoded += rows
        self.step_seconds += seconds
        self.histogram[bisect_left(STEP_BUCKETS_S, seconds)] += 1
        self._recent.append(seconds)
        ordered = sorted(self._recent)
        self.p50_s = ordered[len(ordered) // 2]
        self.p99_s = ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]

    def count_retry(self) -> None:
        self.retried_steps += 1

    def snapshot(self) -> StepStats:
        return StepStats(
            steps=self.steps,
            frames=self.frames,
            encoded=self.encoded,
            prefix_hits=self.prefix_hits,
            bucket_changes=self.bucket_changes,
            retried_steps=self.retried_steps,
            failed_rows=self.failed_rows,
            failed_cleanups=self.failed_cleanups,
            undelivered=self.undelivered,
            step_p50_s=self.p50_s,
            step_p99_s=self.p99_s,
            step_seconds=self.step_seconds,
            step_histogram=tuple(self.histogram),
        )
