"""The demo's benchmark runs on a small checkpoint. No figure is judged."""

import json
from pathlib import Path

import pytest

from tests.bench import demo
from tests.unit.model.engine.real import torch_threads

pytestmark = pytest.mark.unit


def test_one_frame_is_timed_and_the_calls_that_fit_are_counted(
    tiny_checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "MOST_CALLS", 3)
    target = tmp_path / "demo.json"
    arguments = ["--model", str(tiny_checkpoint), "--steps", "2", "--json", str(target)]
    with torch_threads(1):
        assert demo.main(arguments) == 0
    report = json.loads(target.read_text())
    assert report["random"] is True and report["frame"]["min_ms"] > 0
    assert [one["threads"] for one in report["at_once"]] == [1, 2]
    assert all(0 <= one["calls"] <= 3 for one in report["at_once"])
    assert "random weights" in target.with_suffix(".md").read_text()


def test_the_search_finds_the_most_calls_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = object.__new__(demo.Bench)
    for most in (0, 1, 5, 8, 13, 64, 256, 300):
        fits = lambda calls, threads, most=most: {"p99_ms": 79.0 if calls <= most else 81.0}  # noqa: E731
        monkeypatch.setattr(bench, "time", fits, raising=False)
        assert bench.most_calls(1)["calls"] == min(most, demo.MOST_CALLS)
