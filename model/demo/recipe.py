"""The stages of the recipe in their order, on one work folder; each can be run again."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from model.config import ModelConfig
from model.tokenizer import Tokenizer

from . import progress
from .bank import Bank, Share, build_bank
from .basis import Basis
from .codec import load_codec, train_codec
from .corpus import Corpus, Size, build_corpus
from .decoder import DecoderTraining
from .dialogue import Dialogues, Mix
from .export import describe, export, load_trained
from .fidelity import agreement
from .language import FRAMES, LanguageTraining
from .texts import Texts, load_texts
from .together import run_together
from .training import stored_step
from .wording import write_tokenizer

LATER_RUNS = ("language", "patience", "decoder")
"""The trainings that begin with a finished codec."""
COMPARED_CALLS = 8
"""Calls in which stored and trained weights are compared."""


@dataclass(frozen=True)
class Plan:
    """How much of everything; the defaults take under two hours on two idle cores."""

    seed: int = 1
    workers: int = 2
    size: Size = field(default_factory=Size)
    codec_steps: int = 2600
    decoder_steps: int = 6000
    language_steps: int = 3500
    takes: int = 4
    """In how many conditions each utterance is encoded for the language model."""


@dataclass(frozen=True)
class Work:
    """The folder that everything but the checkpoint is written to, and the texts it is made of."""

    folder: Path
    texts_path: Path

    @property
    def texts(self) -> Texts:
        return load_texts(self.texts_path)

    @property
    def corpus(self) -> Path:
        return self.folder / "corpus"

    @property
    def runs(self) -> Path:
        return self.folder / "runs"

    @property
    def bank(self) -> Path:
        return self.runs / "bank.pt"

    @property
    def tokenizer(self) -> Path:
        return self.runs / "tokenizer.model"


def make_corpus(work: Work, plan: Plan) -> Corpus:
    return build_corpus(work.texts, work.corpus, plan.seed, plan.size, plan.workers)


def train(work: Work, plan: Plan) -> None:
    """The codec, then the language model over its codes, then the codec's decoder once more."""
    work.runs.mkdir(parents=True, exist_ok=True)
    Basis.of(work.corpus, plan.seed, plan.takes).store(work.runs)
    if stored_step(work.runs, "codec") < plan.codec_steps:
        _forget(work, *LATER_RUNS)
        work.bank.unlink(missing_ok=True)
    run_together(plan.workers, train_codec, work.corpus, work.runs, plan.seed, plan.codec_steps)
    if not work.bank.exists():
        fill_bank(work, plan)
    if stored_step(work.runs, "language") < plan.language_steps:
        _forget(work, "patience")
    run_together(plan.workers, train_language, work, plan)
    run_together(plan.workers, train_decoder, work, plan)
    draw_curves(work)


def _forget(work: Work, *names: str) -> None:
    """Drop trainings before what they began with is trained on."""
    for name in names:
        for ending in ("pt", "jsonl"):
            (work.runs / f"{name}.{ending}").unlink(missing_ok=True)


def fill_bank(work: Work, plan: Plan) -> None:
    """Encode everything that is said with the finished codec."""
    mimi = load_codec(work.runs)
    tokenizer = write_tokenizer(work.texts, work.tokenizer)
    share = Share(plan.seed, plan.takes, plan.workers)
    build_bank(work.corpus, mimi, describe(mimi), tokenizer, share).save(work.bank)


def train_decoder(work: Work, plan: Plan) -> None:
    mimi = load_codec(work.runs)
    training = DecoderTraining(
        Corpus.load(work.corpus), Bank.load(work.bank), describe(mimi), mimi.train(), plan.seed
    )
    training.run(work.runs, plan.decoder_steps)


def train_language(work: Work, plan: Plan) -> None:
    mimi = load_codec(work.runs)
    config = describe(mimi)
    LanguageTraining(_dialogues(work, config), config, mimi, plan.seed).run(
        work.runs, plan.language_steps
    )


def draw_curves(work: Work) -> None:
    names = [n for n in ("codec", *LATER_RUNS) if (work.runs / f"{n}.jsonl").exists()]
    progress.draw({n: work.runs / f"{n}.jsonl" for n in names}, work.runs / "curves.png")


def write_checkpoint(work: Work, plan: Plan, folder: Path) -> dict[str, float]:
    """Export what was trained; its size, and how often it chooses as the trained model does."""
    trained = load_trained(work.runs, load_codec(work.runs))
    size = export(trained, work.texts, Corpus.load(work.corpus), work.tokenizer, folder)
    rng = np.random.default_rng([plan.seed, 51])
    dialogues = _dialogues(work, trained.config)
    calls = [dialogues.draw(rng, Mix()) for _ in range(COMPARED_CALLS)]
    return {"bytes": size, **agreement(trained, folder, calls)}


def _dialogues(work: Work, config: ModelConfig) -> Dialogues:
    bank, tokenizer = Bank.load(work.bank), Tokenizer(work.tokenizer)
    return Dialogues(work.texts, bank, config, tokenizer, FRAMES)
