"""The stages of `tests/bench/gpu.sh`, one a process: `python -m tests.bench.gpu STAGE --out DIR`.

Random weights of the 7B shape, made on the device. With `--dry` everything runs on the CPU at tiny
size and few steps: it shows that the stages work and says nothing of speed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.bench.gpu_stages import STAGES
from tests.bench.plant import Plant


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.bench.gpu", description=__doc__)
    parser.add_argument("stage", choices=sorted(STAGES))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--dry", action="store_true")
    options = parser.parse_args(arguments)
    target = options.out / f"{options.stage}.json"
    stage: Callable[[Plant, Callable[[dict[str, object]], None]], None] = STAGES[options.stage]

    def write(result: dict[str, object]) -> None:
        """At once, whole, after every figure: a stage that is cut off leaves what it had."""
        scratch = target.with_suffix(".part")
        scratch.write_text(json.dumps({"stage": options.stage, "dry": options.dry, **result}))
        scratch.replace(target)

    stage(Plant(dry=options.dry), write)
    print(target.read_text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
