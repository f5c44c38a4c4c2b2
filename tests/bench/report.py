"""Where a benchmark's result goes: the terminal, a JSON file, and Markdown beside it."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from model.modes import bf16_products


def publish(report: Mapping[str, object], markdown: str, target: Path | None) -> None:
    """Print the Markdown; with `target`, write it there as `.md` and the report as JSON."""
    print(markdown)
    if target is None:
        return
    target.write_text(json.dumps(report, indent=1))
    target.with_suffix(".md").write_text(markdown + "\n")


def surroundings() -> dict[str, object]:
    """What a figure depends on beside the code."""
    return {
        "torch": torch.__version__,
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "machine": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg(),
        "bf16": "available" if bf16_products() else "not available",
    }


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """As Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
