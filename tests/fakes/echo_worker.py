"""The real worker process around the echo engine: `python -m tests.fakes.echo_worker [options]`.

Takes the options of `start`, and `--record DIR` to keep each call's input there as `NNN.npz`
(`pcm`, `epochs`, `seqs`, and what it was bound to: `voice`, `persona`, `seed`) when the call ends.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from agent import start
from agent.settings import Settings
from model import SessionSpec
from tests.fakes import worker_command
from tests.fakes.echo import EchoEngine, Heard


def recorder(folder: Path) -> Callable[[Heard], None]:
    numbers = itertools.count()

    def record(heard: Heard) -> None:
        np.savez(
            folder / f"{next(numbers):03d}.npz",
            pcm=heard.pcm(),
            epochs=[epoch for epoch, _, _ in heard.frames],
            seqs=[seq for _, seq, _ in heard.frames],
            **bound_to(heard.spec),
        )

    return record


def bound_to(spec: SessionSpec | None) -> dict[str, Any]:
    """Nothing of a call that was never bound, and no seed of a greedy one."""
    if spec is None:
        return {}
    seed = {} if spec.sampling is None else {"seed": spec.sampling.seed}
    return {"voice": spec.voice, "persona": spec.persona, **seed}


def main() -> int:
    parser = argparse.ArgumentParser()
    start.add_arguments(parser)
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    on_closed = recorder(args.record) if args.record else None

    def engine(settings: Settings) -> EchoEngine:
        return EchoEngine(settings.max_sessions, on_closed)

    return worker_command.run(args, engine)


if __name__ == "__main__":
    sys.exit(main())
