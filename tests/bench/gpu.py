"""The stages of `tests/bench/gpu.sh`: `python -m tests.bench.gpu STAGE... --out DIR`.

Random weights of the 7B shape, made on the device. With `--dry` everything runs on the CPU at tiny
size and few steps: it shows that the stages work and says nothing of speed.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path

from tests.bench import gpu_isolation, gpu_stages
from tests.bench.gpu_stages import Write
from tests.bench.plant import Plant

ROOT = Path(__file__).parents[2]


def moshi(plant: Plant, write: Write) -> None:
    """The package is for development alone, and a GPU machine may not have it."""
    try:
        from tests.bench.gpu_moshi import side_by_side
    except ImportError as error:
        write({"skipped": str(error)})
    else:
        side_by_side(plant, write)


STAGES: dict[str, Callable[[Plant, Write], None]] = {
    "env": gpu_stages.env,
    "steps": gpu_stages.steps,
    "paced": gpu_stages.paced,
    "start": gpu_stages.start,
    "sessions": gpu_stages.sessions,
    "isolation": gpu_isolation.isolation,
    "ablations": gpu_stages.ablations,
    "moshi": moshi,
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.bench.gpu", description=__doc__)
    parser.add_argument("stages", nargs="+", choices=sorted(STAGES))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=math.inf, help="for each stage")
    parser.add_argument("--dry", action="store_true")
    options = parser.parse_args(arguments)
    for stage in options.stages:
        result = Result(options.out, stage, {"dry": options.dry, "commit": commit()})
        plant = Plant(dry=options.dry, seconds=options.seconds)
        STAGES[stage](plant, result.write)
        result.complete()
        print(result.target.read_text())
    return 0


class Result:
    """The file of a stage; what an earlier run of it left incomplete is put aside, not lost."""

    def __init__(self, folder: Path, stage: str, about: dict[str, object]) -> None:
        self.target = folder / f"{stage}.json"
        self._about, self._figures = {"stage": stage, **about}, dict[str, object]()
        if self.target.exists():
            names = (folder / f"{stage}.cut-off-{number}" for number in count(1))
            self.target.rename(next(name for name in names if not name.exists()))

    def write(self, figures: dict[str, object]) -> None:
        """At once, whole, after every figure: a stage that is cut off leaves what it had."""
        self._figures = figures
        self._save(complete=False)

    def complete(self) -> None:
        """The stage came to its end, or stopped by itself when its time was spent."""
        self._save(complete=True)

    def _save(self, *, complete: bool) -> None:
        scratch = self.target.with_suffix(".part")
        scratch.write_text(json.dumps(self._about | self._figures | {"complete": complete}))
        scratch.replace(self.target)


def commit() -> str | None:
    """Of this tree; none where it is no checkout, or where there is no git."""
    command = ["git", "rev-parse", "HEAD"]
    try:
        found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return found.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
