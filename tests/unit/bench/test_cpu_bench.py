"""The CPU benchmark runs at small size: outputs equal, every case present. No figure is judged."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from model.lm_step import LMOutput
from model.presets import SEED, TINY
from model.random_weights import random_weights
from tests.bench import cases, sides
from tests.bench.cpu import main
from tests.bench.sides import Reference
from tests.bench.timing import compare
from tests.unit.model.engine.real import torch_threads

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def bench() -> cases.Bench:
    weights = random_weights(TINY, SEED)
    return cases.Bench(TINY, weights, Reference(TINY, weights), rounds=1)


def test_no_ratio_is_made_of_a_wrong_result(
    bench: cases.Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
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


# Gate B
@pytest.mark.parametrize("wrong", ["text", "audio", None])
def test_the_fast_mode_is_held_to_plain_bf16_before_it_is_timed(
    wrong: str | None, bench: cases.Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a host without bf16 products the form is plain as well, and still has to say the same."""
    monkeypatch.setattr(cases, "packs_bf16", lambda rows: True)
    codebooks, hear = sides.OurLM.codebooks, sides.OurLM.hear

    def off(side: sides.OurLM, row: str) -> float:
        return 1.03 if row == wrong and side.form != "plain" else 1.0

    def heard(side: sides.OurLM, *given: Any) -> LMOutput:
        output = hear(side, *given)
        return replace(output, text_logits=output.text_logits * off(side, "text"))

    monkeypatch.setattr(sides.OurLM, "hear", heard)
    monkeypatch.setattr(
        sides.OurLM, "codebooks", lambda side, *given: codebooks(side, *given) * off(side, "audio")
    )
    if wrong:
        with pytest.raises(cases.OutputsDiffer, match=f"frame_fast, batch 2: {wrong} is 3"):
            cases.frame_fast(bench, 2)
    else:
        assert "bfloat16" in str(cases.frame_fast(bench, 2)["note"])


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
