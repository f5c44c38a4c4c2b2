"""A virtual-time event loop: time stands still while anything can run, then jumps ahead.

`run(coroutine)` runs it to its end on such a loop. Sockets do not belong here.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _NoWait(selectors.DefaultSelector):
    """A selector that never sleeps, and remembers how long it was asked to."""

    asked: float | None = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        self.asked = timeout
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """`time()` moves only when the loop would have slept."""

    def __init__(self) -> None:
        self._now = 0.0
        self._waits = _NoWait()
        super().__init__(self._waits)

    def time(self) -> float:
        return self._now

    def _run_once(self) -> None:
        super()._run_once()  # type: ignore[misc]
        asked = self._waits.asked
        if asked is None and not self._ready:  # type: ignore[attr-defined]
            raise RuntimeError("deadlock: nothing is scheduled and nothing can run")
        if asked:
            self._now += asked


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run to the end in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
