"""What was made with an older codec is made again; what is up to date is kept."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from model.demo import recipe
from model.demo.recipe import Plan, Work, train
from model.demo.texts import TEXTS

pytestmark = pytest.mark.unit


class Stages:
    """Stands in for the long stages and notes what is asked of them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.begun: list[str] = []
        patch.setattr(recipe, "train_codec", self.codec)
        patch.setattr(recipe, "fill_bank", self.bank)
        patch.setattr(recipe, "train_decoder", lambda w, p: self.note(w, "decoder"))
        patch.setattr(recipe, "train_language", self.language)
        patch.setattr(recipe, "draw_curves", lambda work: None)

    def codec(self, corpus: Path, runs: Path, seed: int, steps: int) -> None:
        torch.save({"step": steps}, runs / "codec.pt")

    def language(self, work: Work, plan: Plan) -> None:
        self.note(work, "language")
        self.note(work, "patience")
        torch.save({"step": plan.language_steps}, work.runs / "language.pt")

    def bank(self, work: Work, plan: Plan) -> None:
        self.note(work, "bank")

    def note(self, work: Work, name: str) -> None:
        if not (work.runs / f"{name}.pt").exists():
            self.begun.append(name)
            (work.runs / f"{name}.pt").write_bytes(b"")


@pytest.fixture
def work(tmp_path: Path) -> Work:
    """One with the index of a corpus."""
    work = Work(tmp_path, TEXTS)
    work.corpus.mkdir()
    (work.corpus / "corpus.json").touch()
    return work


def test_a_longer_trained_codec_makes_the_rest_anew(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = Stages(monkeypatch)
    train(work, Plan(workers=1, codec_steps=10))
    train(work, Plan(workers=1, codec_steps=10))
    assert stages.begun == ["bank", "language", "patience", "decoder"]
    train(work, Plan(workers=1, codec_steps=20))
    assert stages.begun == ["bank", "language", "patience", "decoder"] * 2


def test_a_longer_trained_language_model_learns_patience_anew(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the shorter one ended with would otherwise be taken for the longer one."""
    stages = Stages(monkeypatch)
    train(work, Plan(workers=1, language_steps=10))
    stages.begun.clear()
    train(work, Plan(workers=1, language_steps=20))
    assert stages.begun == ["patience"]
