"""Ours against the `moshi` package on this CPU, in one process, on the same weights and input.

    python -m tests.bench.cpu --threads 1 --batch 1,8 --rounds 11 --json out.json

Run it on an idle machine. Prints a Markdown table and writes `{"cases": [...], ...}`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("NO_TORCH_COMPILE", "1")

import torch  # noqa: E402

from model.modes import bf16_products  # noqa: E402
from model.presets import PRESETS, SEED  # noqa: E402
from model.random_weights import random_weights  # noqa: E402
from tests.bench import cases  # noqa: E402
from tests.bench.sides import Reference  # noqa: E402


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
    report = {"cases": results, **surroundings(options)}
    if options.json:
        options.json.write_text(json.dumps(report, indent=1))
    print(table(results))
    print(f"\nload {os.getloadavg()}, bf16 products: {report['bf16']}")
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


def surroundings(options: argparse.Namespace) -> dict[str, object]:
    return {
        "model": options.model,
        "threads": options.threads,
        "rounds": options.rounds,
        "torch": torch.__version__,
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "machine": platform.machine(),
        "load": os.getloadavg(),
        "bf16": "available" if bf16_products() else "not available",
    }


def table(results: Sequence[dict[str, object]]) -> str:
    lines = ["| case | batch | ratio | moshi ms | ours ms | note |", "|---|---|---|---|---|---|"]
    for case in results:
        lines.append(
            f"| {case['name']} | {case['batch']} | {case['ratio']:.2f} | "
            f"{case['reference_ms']:.2f} | {case['ours_ms']:.2f} | {case['note']} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
