"""The real worker with the real engine, whose every answer is kept as the engine gave it.

`python -m tests.fakes.watched_worker --record DIR [options of start]` writes `NNN.npz` when a call
ends: `pcm` `[N, 1920]` in the engine's own floats, `epochs` and `seqs`.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from agent import start
from agent.loading import OwnedEngine, make_engine
from agent.settings import Settings
from model import FRAME_SAMPLES, Deliver, EngineEvent, FrameResult, Handle, Released
from tests.fakes import worker_command


def watch(engine: OwnedEngine, files: Iterator[Path]) -> None:
    """Keep what the engine delivers, call by call."""
    open_call = engine.open

    def open_watched(deliver: Deliver, *, queue_frames: int = 25) -> Handle:
        results: list[FrameResult] = []

        def pass_on(event: EngineEvent) -> None:
            if isinstance(event, FrameResult):
                results.append(event)
            elif isinstance(event, Released):
                save(next(files), results)
            deliver(event)

        return open_call(pass_on, queue_frames=queue_frames)

    engine.open = open_watched  # type: ignore[method-assign]


def save(path: Path, results: list[FrameResult]) -> None:
    np.savez(
        path,
        pcm=np.array([result.pcm for result in results]).reshape(-1, FRAME_SAMPLES),
        epochs=[result.epoch for result in results],
        seqs=[result.seq for result in results],
    )


def main() -> int:
    parser = argparse.ArgumentParser()
    start.add_arguments(parser)
    parser.add_argument("--record", type=Path, required=True)
    args = parser.parse_args()

    def engine_of(settings: Settings) -> OwnedEngine:
        engine = make_engine(settings)
        watch(engine, (args.record / f"{number:03d}.npz" for number in itertools.count()))
        return engine

    return worker_command.run(args, engine_of)


if __name__ == "__main__":
    sys.exit(main())
