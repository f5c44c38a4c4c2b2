"""A progress bar on one terminal line; on anything but a terminal, only its last state."""

from __future__ import annotations

import time
from typing import TextIO

WIDTH = 30
INTERVAL_S = 0.1


class ProgressBar:
    """`label [#####     ] done/total note`, drawn at most ten times a second."""

    def __init__(self, label: str, total: int, out: TextIO) -> None:
        self._label, self._total, self._out = label, total, out
        self._live = out.isatty()
        self._next = 0.0
        self._last = ""

    def show(self, done: int, note: str) -> None:
        """`done` of the total, with a note behind it."""
        filled = WIDTH * done // self._total
        bar = "#" * filled + " " * (WIDTH - filled)
        self._last = f"{self._label} [{bar}] {done}/{self._total} {note}"
        if self._live and time.monotonic() >= self._next:
            self._next = time.monotonic() + INTERVAL_S
            self._out.write(f"\r{self._last}\x1b[K")
            self._out.flush()

    def close(self) -> None:
        """Leave the last state standing on a line of its own."""
        self._out.write(f"\r{self._last}\x1b[K\n" if self._live else f"{self._last}\n")
        self._out.flush()
