"""The real worker process around the echo engine: `python -m tests.fakes.echo_worker [options]`.

Takes the options of `start`, and `--record DIR` to keep each call's input there as `NNN.npz`
(`pcm`, `epochs`, `seqs`) when the call ends.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from agent import start
from agent.settings import Settings
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
        )

    return record


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
