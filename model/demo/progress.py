"""Progress on the terminal, and the curves of a training as a PNG.

Knows nothing of what is being counted.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path

BAR = 24


class Progress:
    """One line that is written over: bar, figures, time left. Plain lines where no terminal is."""

    def __init__(self, name: str, total: int, start: int = 0) -> None:
        self.name = name
        self.total = max(1, total)
        self.start = start
        self._began = time.monotonic()
        self._tty = sys.stderr.isatty()

    def show(self, done: int, figures: Mapping[str, float] | None = None) -> None:
        filled = BAR * done // self.total
        spent = time.monotonic() - self._began
        left = spent / max(1, done - self.start) * (self.total - done)
        shown = "  ".join(f"{key} {value:.4g}" for key, value in (figures or {}).items())
        line = (
            f"{self.name} [{'#' * filled}{'.' * (BAR - filled)}] {done}/{self.total}  "
            f"{shown}  {left / 60:.1f} min left"
        )
        end = "\r" if self._tty and done < self.total else "\n"
        print(line, end=end, file=sys.stderr, flush=True)


class Curves:
    """Figures by step, kept as JSON lines beside the checkpoints so that a resume goes on."""

    def __init__(self, path: Path, step: int) -> None:
        self._path = path
        rows = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        kept = [row for row in rows if json.loads(row)["step"] <= step]
        path.write_text("".join(row + "\n" for row in kept), encoding="utf-8")

    def add(self, step: int, figures: Mapping[str, float]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, **figures}) + "\n")


def draw(curves: Mapping[str, Path], target: Path) -> None:
    """One panel a training, one line a figure."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(curves), figsize=(6 * len(curves), 4), squeeze=False)
    for axis, (name, path) in zip(axes[0], curves.items(), strict=True):
        rows = [json.loads(row) for row in path.read_text(encoding="utf-8").splitlines()]
        for key in sorted({key for row in rows for key in row} - {"step"}):
            points = [(row["step"], row[key]) for row in rows if key in row]
            axis.plot(*zip(*points, strict=True), label=key)
        axis.set(title=name, xlabel="step", yscale="log")
        axis.legend()
    figure.tight_layout()
    figure.savefig(target)
    pyplot.close(figure)
