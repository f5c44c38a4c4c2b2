"""The CPU benchmark runs at small size: outputs equal, every case present. No figure is judged."""

import json
from pathlib import Path

import pytest

from tests.bench.cpu import main

pytestmark = pytest.mark.unit


def test_the_benchmark_checks_its_outputs_and_writes_every_case(tmp_path: Path) -> None:
    target = tmp_path / "bench.json"
    arguments = ["--model", "tiny", "--batch", "1,2", "--rounds", "1", "--json", str(target)]
    assert main(arguments) == 0
    report = json.loads(target.read_text())
    found = {(case["name"], case["batch"]) for case in report["cases"]}
    both = {"lm_step", "lm_step_served", "mimi_encode", "mimi_decode", "frame_fast"}
    assert found == {(name, batch) for name in both for batch in (1, 2)} | {
        ("prefill_200", 1),
        ("prefill_200_own", 1),
        ("join", 1),
    }
    assert all(case["ratio"] > 0 for case in report["cases"])
    assert {case["goal"] for case in report["cases"] if case["name"] == "lm_step"} == {1.5, None}
    assert "| prefill_200_own | 1 |" in target.with_suffix(".md").read_text()
