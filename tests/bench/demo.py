"""The demo checkpoint on this CPU: one frame as served, and how many calls fit into its 80 ms.

    python -m tests.bench.demo [--model demo] [--steps 50] [--cores 2] [--json FILE]

A frame is all of it: encode, language model, eight depformer steps, decode, rings full. A number
of calls fits where the 99th percentile of their common step stays below 80 ms. As served one core
is left to the transports; with both computing is reported too.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from model.checkpoint.load import Checkpoint, load_checkpoint
from model.core import FRAME_SAMPLES, FRAME_SECONDS, SessionSpec
from model.loading import build_stepper, prompt_reader
from model.prefill import Prefix, prefill
from model.random_weights import voice_like_sound
from model.stepper import StepInput
from tests.bench.report import publish, surroundings, table

CPU = torch.device("cpu")
WARMUPS = 3
GOAL_MS = 35.0
MOST_CALLS = 256


class Calls:
    """`count` live calls of the default voice and persona, past every window."""

    def __init__(self, checkpoint: Checkpoint, prefix: Prefix, count: int) -> None:
        self.stepper = build_stepper(checkpoint, CPU, max_sessions=count)
        self.position = 2 * checkpoint.info.config.lm.context
        step = self.stepper.frame_step
        for slot in range(count):
            self.stepper.admit(slot, prefix, None)
            state = step.lm_slots.state.rows(slot, slot + 1)
            state.place(0, state.tokens[0].clone(), self.position)
        step.codec_state.frames.fill_(self.position - prefix.positions)
        self.sound = voice_like_sound(64 * FRAME_SAMPLES, seed=0).reshape(64, FRAME_SAMPLES)
        self.live = np.arange(self.stepper.rows) < count

    def step(self) -> float:
        """Milliseconds of one step of all of them."""
        frames = StepInput(
            pcm=np.outer(self.live, self.sound[self.position % 64]).astype(np.float32),
            stepped=self.live,
            held=np.zeros(len(self.live), np.bool_),
            positions=[self.position if row else 0 for row in self.live],
        )
        self.position += 1
        began = time.perf_counter()
        self.stepper.step(range(self.stepper.rows), frames)
        return 1000 * (time.perf_counter() - began)

    def timed(self, steps: int) -> dict[str, float]:
        taken = [self.step() for _ in range(WARMUPS + steps)][WARMUPS:]
        p50, p99 = np.percentile(taken, [50, 99])
        return {"min_ms": min(taken), "p50_ms": float(p50), "p99_ms": float(p99)}


class Bench:
    """One checkpoint and its default prefix."""

    def __init__(self, name: str, steps: int) -> None:
        self.checkpoint = load_checkpoint(name, device=CPU)
        info, self.steps = self.checkpoint.info, steps
        spec = SessionSpec(info.default_voice, info.default_persona)
        prompt = prompt_reader(self.checkpoint)(spec)
        self.prefix = prefill(self.checkpoint.lm, info.config, prompt)

    def time(self, calls: int, threads: int) -> dict[str, float]:
        torch.set_num_threads(threads)
        return Calls(self.checkpoint, self.prefix, calls).timed(self.steps)

    def most_calls(self, threads: int) -> dict[str, object]:
        """The largest number of calls whose common step fits, between doublings by halving."""
        low, high, tried = 0, MOST_CALLS + 1, dict[int, dict[str, float]]()
        while high - low > 1:
            doubled = min(2 * low or 1, MOST_CALLS)
            calls = doubled if high > MOST_CALLS else (low + high) // 2
            tried[calls] = self.time(calls, threads)
            fits = tried[calls]["p99_ms"] < 1000 * FRAME_SECONDS
            low, high = (calls, high) if fits else (low, calls)
        return {"threads": threads, "calls": low, **tried.get(low, {})}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.bench.demo", description=__doc__)
    parser.add_argument("--model", default="demo")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    bench = Bench(options.model, options.steps)
    frame = {"batch": 1, "threads": 1, "goal_ms": GOAL_MS, **bench.time(1, threads=1)}
    computing = sorted({max(1, options.cores - 1), options.cores})
    at_once = [bench.most_calls(threads) for threads in computing]
    random = bench.checkpoint.info.is_random
    report = {"model": options.model, "random": random, "frame": frame, "at_once": at_once}
    publish(report | surroundings(), markdown(report), options.json)
    return 0


def markdown(report: dict[str, object]) -> str:
    frame, at_once = report["frame"], report["at_once"]
    assert isinstance(frame, dict) and isinstance(at_once, list)
    rows = [["one frame, one call", "1", "1", *figures(frame)]]
    rows += [
        ["calls at once within 80 ms", str(one["threads"]), str(one["calls"]), *figures(one)]
        for one in at_once
    ]
    weights = "random weights" if report["random"] else "trained weights"
    title = f"Model {report['model']} ({weights}); goal for one frame: {GOAL_MS:g} ms on one core"
    header = ["what", "threads", "calls", "min ms", "p50 ms", "p99 ms"]
    return f"{title}\n\n{table(header, rows)}"


def figures(times: dict[str, float]) -> list[str]:
    return [
        f"{times[name]:.1f}" if name in times else "-" for name in ("min_ms", "p50_ms", "p99_ms")
    ]


if __name__ == "__main__":
    sys.exit(main())
