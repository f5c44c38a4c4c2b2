"""The stages of `tests/bench/gpu.sh`: `python -m tests.bench.gpu STAGE... --out DIR`.

Random weights of the 7B shape, made on the device. With `--dry` everything runs on the CPU at tiny
size and few steps: it shows that the stages work and says nothing of speed.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tests.bench import gpu_isolation, gpu_stages
from tests.bench.gpu_stages import Write
from tests.bench.plant import Plant


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
        target = options.out / f"{stage}.json"
        about = {"stage": stage, "dry": options.dry}
        plant = Plant(dry=options.dry, seconds=options.seconds)
        STAGES[stage](plant, partial(write_result, target, about))
        print(target.read_text())
    return 0


def write_result(target: Path, about: dict[str, object], result: dict[str, object]) -> None:
    """At once, whole, after every figure: a stage that is cut off leaves what it had."""
    scratch = target.with_suffix(".part")
    scratch.write_text(json.dumps(about | result))
    scratch.replace(target)


if __name__ == "__main__":
    sys.exit(main())
