"""Ours against the `moshi` package on this CPU, in one process, on the same weights and input.

    python -m tests.bench.cpu --threads 1 --batch 1,8 --rounds 11 --json out.json

Run it on an idle machine. Prints a Markdown table and writes `{"cases": [...], ...}`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("NO_TORCH_COMPILE", "1")

import torch  # noqa: E402

from model.modes import bf16_products  # noqa: E402
from model.presets import PRESETS, SEED  # noqa: E402
from model.random_weights import random_weights  # noqa: E402
from tests.bench import cases  # noqa: E402
from tests.bench.report import publish, surroundings, table  # noqa: E402
from tests.bench.sides import Reference  # noqa: E402

GOALS = {
    ("lm_step", 1): 1.5,
    ("lm_step", 8): 1.25,
    ("lm_step_served", 1): 2.0,
    ("lm_step_served", 8): 1.6,
    ("mimi_encode", 1): 1.6,
    ("mimi_decode", 1): 1.6,
    ("prefill_200", 1): 50.0,
}
"""Ratios to reach on the model `small`, one thread; nothing fails below them."""
FAST_GOALS = {("frame_fast", 1): 2.0, ("frame_fast", 8): 2.0}
"""Only where the CPU multiplies bf16 in hardware."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    torch.set_num_threads(options.threads)
    config = PRESETS[options.model]
    weights = random_weights(config, SEED)
    bench = cases.Bench(config, weights, Reference(config, weights), options.rounds)
    results: list[dict[str, object]] = []
    for batch in options.batch:
        results.append(cases.lm_step(bench, batch, steps=config.lm.dep_q))
        results.append(cases.lm_step(bench, batch, steps=8))
        results.append(cases.mimi(bench, batch, way="encode"))
        results.append(cases.mimi(bench, batch, way="decode"))
        results.append(cases.frame_fast(bench, batch))
    results += cases.prefill_200(bench)
    goals = GOALS | FAST_GOALS if bf16_products() else GOALS
    for case in results:
        case["goal"] = goals.get((str(case["name"]), int(str(case["batch"]))))
    chosen = {name: getattr(options, name) for name in ("model", "threads", "rounds")}
    report = {"cases": results, **chosen, **surroundings()}
    publish(report, markdown(report, results), options.json)
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.bench.cpu", description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--batch", type=lambda text: [int(b) for b in text.split(",")], default=[1, 8]
    )
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--model", choices=sorted(PRESETS), default="small")
    parser.add_argument("--json", type=Path)
    return parser.parse_args(arguments)


def markdown(report: dict[str, object], results: Sequence[dict[str, object]]) -> str:
    header = ["case", "batch", "ratio", "goal", "of medians", "moshi ms", "ours ms", "note"]
    rows = [
        [
            str(case["name"]),
            str(case["batch"]),
            f"{case['ratio']:.2f}",
            str(case["goal"] or ""),
            f"{case['median_ratio']:.2f}",
            f"{case['reference_ms']:.2f}",
            f"{case['ours_ms']:.2f}",
            str(case["note"]),
        ]
        for case in results
    ]
    told = ", ".join(f"{name} {report[name]}" for name in ("model", "threads", "load", "bf16"))
    return f"{table(header, rows)}\n\n{told}"


if __name__ == "__main__":
    sys.exit(main())
