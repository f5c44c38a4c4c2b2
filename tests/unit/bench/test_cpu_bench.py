"""The CPU benchmark runs at small size: outputs equal, every case present. No figure is judged."""

import json
from pathlib import Path

import pytest

from model.presets import SEED, TINY
from model.random_weights import random_weights
from tests.bench import cases, sides
from tests.bench.cpu import main
from tests.bench.sides import Reference
from tests.bench.timing import compare
from tests.unit.model.engine.real import torch_threads

pytestmark = pytest.mark.unit


def test_no_ratio_is_made_of_a_wrong_result(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = random_weights(TINY, SEED)
    bench = cases.Bench(TINY, weights, Reference(TINY, weights), rounds=1)

    def spoil(owner: type, method: str, by: float) -> None:
        right = getattr(owner, method)
        monkeypatch.setattr(owner, method, lambda *args: right(*args) + by)

    spoil(sides.OurLM, "step", 1)
    with pytest.raises(cases.OutputsDiffer, match="tokens differ"):
        cases.lm_step(bench, 1, steps=8)
    monkeypatch.undo()
    spoil(sides.OurCodec, "decode", 1e-3)
    with pytest.raises(cases.OutputsDiffer, match="PCM differs"):
        cases.mimi(bench, 1, way="encode")
    monkeypatch.undo()
    spoil(sides.OurFrame, "run", 1e-3)
    with pytest.raises(cases.OutputsDiffer, match="frame_fast, batch 2: PCM differs at call 0"):
        cases.frame_fast(bench, 2)
    monkeypatch.undo()
    monkeypatch.setattr(cases, "HIDDEN_BOUND", -1.0)
    with pytest.raises(cases.OutputsDiffer, match="hidden"):
        cases.prefill_200(bench)


@pytest.mark.parametrize(("threads", "clock"), [(1, "process_time"), (2, "perf_counter")])
def test_the_ratio_is_of_the_clock_that_fits_the_threads(
    threads: int, clock: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0

    def work(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(f"tests.bench.timing.time.{clock}", lambda: now)
    with torch_threads(threads):
        result = compare(lambda: work(6.0), lambda: work(2.0), rounds=3)
    assert result.ratio == result.median_ratio == 3.0 and result.ours_ms == 2000
    assert result.times(200).ratio == 600 and result.times(200).ours_ms == 2000


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
