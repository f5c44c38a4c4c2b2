"""What became of the frames of all calls in rooms, those that are over included.

Calls run on threads of their own; whoever asks reads their counters as they stand. It knows no
names of counters and no Prometheus.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

Counts = dict[str, int]


class Counted(Protocol):
    """A call that counts, by stage."""

    def counts(self) -> dict[str, Counts]: ...


class RoomTally:
    """The sums; a call counts from its beginning and is never forgotten."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._live: list[Counted] = []
        self._past: dict[str, Counter[str]] = {}

    @contextmanager
    def counting(self, call: Counted) -> Iterator[None]:
        """This call too, for as long as the block lasts; what it counted stays."""
        with self._lock:
            self._live.append(call)
        try:
            yield
        finally:
            with self._lock:
                self._live.remove(call)
                _add(self._past, call)

    def totals(self) -> dict[str, Counter[str]]:
        """Every call's counters, by stage."""
        with self._lock:
            total = {stage: Counter(counts) for stage, counts in self._past.items()}
            for call in self._live:
                _add(total, call)
        return total


def _add(total: dict[str, Counter[str]], call: Counted) -> None:
    for stage, counts in call.counts().items():
        total.setdefault(stage, Counter()).update(counts)
