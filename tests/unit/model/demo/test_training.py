"""Trainings resume as if never stopped; codebooks follow what they are asked to match."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from model.demo import training
from model.demo.codebooks import kmeans
from model.demo.progress import Curves, draw
from model.demo.recognise import word_errors
from model.demo.training import Run, is_finished, stored_step

pytestmark = pytest.mark.unit


class Stopped(Exception):
    """Someone pressed a key."""


def fit(folder: Path, stop: int | None = None) -> nn.Linear:
    """A line through points in 40 steps, of which the last are left out where it is stopped."""
    torch.manual_seed(0)
    line = nn.Linear(3, 1)
    optimizer = torch.optim.AdamW(line.parameters(), 0.01)

    def loss(step: int) -> tuple[torch.Tensor, dict[str, float]]:
        if step == stop:
            raise Stopped
        x = torch.randn(8, 3, generator=torch.Generator().manual_seed(step))
        error = (line(x) - x.sum(1, keepdim=True)).square().mean()
        return error, {"error": float(error.detach())}

    Run("line", folder, 40, {"line": line}, optimizer, 0.01, loss, warmup=5).go()
    return line


def test_a_stopped_training_goes_on_as_if_it_had_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "SAVE_EVERY", 10)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    straight = fit(whole)
    with pytest.raises(Stopped):
        fit(parts, stop=27)
    assert stored_step(parts, "line") == 20 and not is_finished(parts, "line")
    resumed = fit(parts)
    assert torch.equal(straight.weight, resumed.weight)
    assert stored_step(parts, "line") == 40 and is_finished(parts, "line")
    rows = [json.loads(row) for row in (parts / "line.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [20, 40]
    assert rows[1]["error"] < rows[0]["error"]


def test_curves_forget_what_lies_behind_the_resumed_step(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    curves = Curves(path, 0)
    for step in (20, 40, 60):
        curves.add(step, {"loss": 1 / step})
    Curves(path, 40)
    assert [json.loads(row)["step"] for row in path.read_text().splitlines()] == [20, 40]
    draw({"run": path}, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_kmeans_finds_what_is_there() -> None:
    generator = torch.Generator().manual_seed(3)
    places = torch.tensor([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]])
    points = places.repeat(50, 1) + 0.1 * torch.randn(150, 2, generator=generator)
    centres = kmeans(points, 3, 12, generator)
    assert torch.cdist(places, centres).min(1).values.max() < 0.1


@pytest.mark.parametrize(
    ("wanted", "got", "errors"),
    [
        ("The pool is on the roof.", "the pool is on the roof", 0),
        ("the pool is on the roof", "a pool is on roof", 2),
        ("that makes four", "", 3),
        ("that makes four", "that it makes four", 1),
    ],
)
def test_word_errors_count_every_difference(wanted: str, got: str, errors: int) -> None:
    assert word_errors(wanted, got) == (errors, len(wanted.split()))
