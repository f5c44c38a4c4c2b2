"""Writes the trained demo as a checkpoint in the released layout.

Weights are stored as bfloat16 and computed in float32; codebook statistics stay float32.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import torch

from model.checkpoint.config import CheckpointConfig
from model.checkpoint.names import VOICES_FOLDER
from model.checkpoint.write import as_dtype, write_checkpoint_files
from model.config import ModelConfig
from model.enrol import Enroller, measure_constants
from model.lm import LanguageModel
from model.mimi import Mimi
from model.voices import write_voice

from .bank import voice_clip
from .card import write_card
from .corpus import Corpus
from .shape import ATTENTION_WINDOW, MIMI, lm_config
from .speakers import AGENT_PITCHES
from .texts import Texts
from .wording import TEXT_CARD

VOICES = tuple(f"KAL{index}.pt" for index in range(len(AGENT_PITCHES)))
LIMIT_BYTES = 26_000_000


@dataclass(frozen=True)
class Trained:
    """What the trainings left, with the constants that belong to it."""

    config: ModelConfig
    mimi: Mimi
    lm: LanguageModel


def describe(mimi: Mimi) -> ModelConfig:
    """The demo's configuration, silence and sine measured on its own codec."""
    shape = ModelConfig(lm=lm_config(TEXT_CARD), mimi=MIMI, attention_window=ATTENTION_WINDOW)
    return measure_constants(shape, mimi)


def load_trained(runs: Path, mimi: Mimi) -> Trained:
    """The language model in `runs` beside its codec. Raises `FileNotFoundError`."""
    config = describe(mimi)
    lm = LanguageModel(config.lm)
    lm.load_state_dict(torch.load(runs / "patience.pt", weights_only=True)["lm"])
    return Trained(config, mimi, lm.eval())


def export(trained: Trained, texts: Texts, corpus: Corpus, tokenizer: Path, folder: Path) -> int:
    """Write the checkpoint into `folder`, its card without figures; its size in bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    described = CheckpointConfig(
        trained.config,
        steps_from_file=False,
        voice=VOICES[0],
        persona=texts.personas[0].prompt,
        licence="Apache-2.0",
        dtype="float32",
    )
    lm = as_dtype(trained.lm.state_dict(), torch.bfloat16)
    mimi = as_dtype(trained.mimi.state_dict(), torch.bfloat16)
    write_checkpoint_files(folder, described, lm, mimi, tokenizer.read_bytes())
    _write_voices(trained, corpus, folder / VOICES_FOLDER)
    write_card(folder, texts, {})
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if size > LIMIT_BYTES:
        raise ValueError(f"{folder} has {size} bytes, more than {LIMIT_BYTES}")
    return size


def _write_voices(trained: Trained, corpus: Corpus, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    enroller = Enroller(trained.config, trained.lm, trained.mimi)
    for index, name in enumerate(VOICES):
        voice = enroller.enrol(name, voice_clip(corpus, index))
        write_voice(folder / name, voice.embeddings, voice.cache)
