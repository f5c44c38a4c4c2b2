"""Runs our language model over prompts and user codes, as the engine would, for comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from moshi.models.lm import LMModel
from torch import Tensor

from model.config import ModelConfig
from model.core import Sampling
from model.layers import window_size
from model.lm import LanguageModel
from model.lm_slots import LMSlots
from model.lm_step import embed_column, temporal_step
from model.prefill import Prefix, prefill
from model.prepared import Maker, PlainMaker, prepare
from model.presets import TINY
from model.prompt import Prompt
from model.random_weights import build_lm
from model.voices import COLUMNS, Voice
from tests.parity.lm_oracle import Spoken


def tiny_config(context: int, dep_q: int = 16) -> ModelConfig:
    return replace(TINY, lm=replace(TINY.lm, context=context, dep_q=dep_q))


def random_codes(frames: int, seed: int) -> Tensor:
    """`[8, T]`"""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(TINY.lm.card, (8, frames), generator=generator)


def random_words(count: int, seed: int) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(4, TINY.lm.text_card, (count,), generator=generator).tolist()


def make_slots(
    lm: LanguageModel,
    config: ModelConfig,
    slots: int,
    *,
    steps: int = 8,
    sampling: bool = False,
    maker: Maker | None = None,
) -> LMSlots:
    prepared = prepare(lm, maker or PlainMaker(), steps)
    return LMSlots(prepared, config, slots, sampling=sampling)


@torch.inference_mode()
def run_live(
    slots: LMSlots, users: Sequence[Tensor], live: int, joins: Sequence[int]
) -> list[Spoken]:
    """Step admitted slots together; slot i takes its first frame in step `joins[i]`."""
    rows, starts = range(len(users)), slots.state.position.tolist()
    held = torch.zeros(len(users), dtype=torch.bool)
    said: list[list[tuple[Tensor, Tensor, Tensor]]] = [[] for _ in rows]
    for step in range(live + max(joins)):
        ages = [step - joins[row] for row in rows]
        on = [0 <= age < live for age in ages]
        codes = torch.stack([users[r][:, ages[r] if on[r] else 0] for r in rows])
        positions = [starts[r] + min(max(ages[r], 0), live) for r in rows]
        out = slots.step(rows, codes, held, positions)
        slots.commit(rows, torch.tensor(on))
        for row in rows:
            if on[row]:
                said[row].append((out.text[row], out.codes[row], out.hidden[row]))
    return [Spoken(*(torch.stack(part) for part in zip(*row, strict=True))) for row in said]


def run_single(
    lm: LanguageModel,
    config: ModelConfig,
    prompt: Prompt,
    user: Tensor,
    live: int,
    *,
    steps: int = 8,
    sampling: Sampling | None = None,
) -> Spoken:
    """One call alone, prefill and all."""
    slots = make_slots(lm, config, 1, steps=steps, sampling=sampling is not None)
    admit(slots, 0, prefill(lm, config, prompt), sampling)
    return run_live(slots, [user], live, [0])[0]


@torch.inference_mode()
def step_by_step(slots: LMSlots, config: ModelConfig, prompt: Prompt) -> Prefix:
    """The prefix of a prompt given in tokens, made by the code of a live step in slot 0."""
    ring, length = slots.state.ring, prompt.positions
    window = window_size(config.lm.context, config.attention_window)
    for position in range(length):
        x = embed_column(slots.prepared, list(prompt.tokens[:, position : position + 1]))
        at = torch.tensor([position])
        hidden = temporal_step(slots.prepared, x, at, ring, window, ring.capacity)
    keys, values = (x[:, 0, :, :length].clone() for x in (ring.k, ring.v))
    return Prefix(keys, values, prompt.tokens[:, length], hidden)


@torch.inference_mode()
def admit(slots: LMSlots, slot: int, prefix: Prefix, sampling: Sampling | None = None) -> None:
    slots.admit(slot, prefix, sampling)


def tiny_lm(weights: dict[str, Tensor], config: ModelConfig) -> LanguageModel:
    return build_lm(config.lm, weights)


def worst(ours: Spoken, theirs: Spoken) -> float:
    """Largest difference of hidden states."""
    return float((ours.hidden - theirs.hidden).abs().max())


def agreement(ours: Spoken, theirs: Spoken) -> tuple[int, int]:
    """Frames whose text and eight codes are all equal, and frames."""
    same = (ours.text == theirs.text) & (ours.codes == theirs.codes).all(-1)
    return int(same.sum()), len(same)


@torch.inference_mode()
def saved_voice(reference: LMModel, codes: Tensor, config: ModelConfig) -> Voice:
    """The `.pt` that the reference would save of voice `codes` `[8, N]`, by its own embeddings.

    What its ring holds elsewhere is stale and must not matter, so it is noise here.
    """
    count = codes.shape[1]
    sine = torch.tensor(config.sine_codes)[:, None].expand(-1, count)
    frames = torch.cat([torch.full((1, count), 3), codes, sine])
    columns = torch.full((17, count + 1), -1)
    for row, delay in enumerate(config.lm.delays):
        columns[row, : delay + 1] = config.lm.card if row else config.lm.text_card
        columns[row, delay + 1 : count + delay] = frames[row, 1:]
    embedded = reference.emb[0](columns[1, : count - 1])
    for row in range(1, 16):
        embedded = embedded + reference.emb[row](columns[row + 1, : count - 1])
    embedded = embedded + reference.text_emb(columns[0, : count - 1])
    cache = torch.randint(0, 200, (17, COLUMNS))
    cache[:, (count - 1) % COLUMNS] = columns[:, count - 1]
    delayed = torch.tensor(config.lm.delays) > 0
    cache[delayed, count % COLUMNS] = columns[delayed, count]
    return Voice("SAVED.pt", embedded, cache)
