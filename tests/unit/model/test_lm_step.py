"""The live step: positions, holding, commits, and rows that do not see each other."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import Tensor

from model.checkpoint.schema import lm_schema
from model.core import Sampling
from model.lm import LanguageModel
from model.lm_slots import LMSlots
from model.lm_state import CELLS, round_cells
from model.lm_step import LMOutput, ring_mask
from model.prefill import Prefix, prefill
from model.prepared import PlainMaker, prepare
from model.presets import TINY
from model.prompt import build_prompt_from_codes
from model.random_weights import build_lm

pytestmark = pytest.mark.unit

CONTEXT = 48
CONFIG = replace(TINY, lm=replace(TINY.lm, context=CONTEXT, dep_q=8, depformer_num_layers=1))
SLOTS = 3
NOBODY, ALL = torch.zeros(SLOTS, dtype=torch.bool), torch.ones(SLOTS, dtype=torch.bool)


@cache
def language_model() -> LanguageModel:
    generator = torch.Generator().manual_seed(1)
    weights = {
        name: 0.2 * torch.randn(spec.shape, generator=generator)
        for name, spec in lm_schema(CONFIG.lm).items()
    }
    return build_lm(CONFIG.lm, weights)


@cache
def prefix() -> Prefix:
    codes = torch.arange(8 * 4).view(8, 4)
    return prefill(language_model(), CONFIG, build_prompt_from_codes(codes, [7, 8], CONFIG))


def make(slots: int = SLOTS, *, sampling: bool = False) -> LMSlots:
    prepared = prepare(language_model(), PlainMaker(), 8)
    return LMSlots(prepared, CONFIG, slots, sampling=sampling)


def user(frame: int, rows: int = SLOTS) -> Tensor:
    return (torch.arange(8) * 131 + frame * 17 + 1).expand(rows, 8) % CONFIG.lm.card


@torch.inference_mode()
def advance(slots: LMSlots, frame: int, held: Tensor = NOBODY, on: Tensor = ALL) -> LMOutput:
    rows = range(len(on))
    out = slots.step(rows, user(frame, len(on)), held, slots.state.position.tolist())
    slots.commit(rows, on)
    return out


@torch.inference_mode()
def admit(slots: LMSlots, slot: int, sampling: Sampling | None = None) -> None:
    slots.admit(slot, prefix(), sampling)


def test_ring_mask_shows_the_window_and_nothing_unwritten() -> None:
    mask = ring_mask(torch.tensor([2, 52]), period=50, window=5, cells=64)[:, 0, 0]
    visible = [row.isfinite().nonzero().flatten().tolist() for row in mask]
    assert visible == [[0, 1, 2], [0, 1, 2, 48, 49]]


def test_rings_hold_whole_blocks() -> None:
    assert [round_cells(n) for n in (1, CELLS, CELLS + 1)] == [CELLS, CELLS, 2 * CELLS]


def test_first_live_position_follows_the_prefix() -> None:
    slots = make()
    admit(slots, 1)
    assert slots.state.position.tolist() == [0, prefix().positions, 0]
    out = advance(slots, 0)
    assert out.position.tolist() == [0, prefix().positions, 0]
    assert slots.state.position.tolist() == [1, prefix().positions + 1, 1]


def test_prefill_decides_text_and_first_codebook_and_forces_the_rest() -> None:  # contract: I3
    slots = make(1)
    admit(slots, 0)
    column = slots.state.tokens[0]
    assert column[2:9].tolist() == list(CONFIG.silence_codes[1:])
    assert column[10:].tolist() == list(CONFIG.sine_codes[1:])
    with torch.inference_mode():
        hidden, lm = prefix().hidden, language_model()
        text = lm.text_linear(hidden).argmax(-1)
        code = lm.depformer_logits(hidden, text, torch.zeros(1, 1, dtype=torch.int64))
    assert column[:2].tolist() == [int(text), int(code.argmax(-1))]


def test_rows_that_do_not_step_keep_their_state() -> None:
    slots = make()
    for slot in range(SLOTS):
        admit(slots, slot)
    advance(slots, 0)
    before = slots.state.integers.old.clone()
    advance(slots, 1, on=torch.tensor([True, False, True]))
    after = slots.state.integers.old
    assert torch.equal(after[1], before[1])
    assert not torch.equal(after[0], before[0])


def test_a_step_without_commit_can_be_repeated() -> None:  # contract: I5
    slots = make()
    for slot in range(SLOTS):
        admit(slots, slot)
    for frame in range(60):
        with torch.inference_mode():
            slots.step(range(SLOTS), user(frame + 999), NOBODY)
            first = slots.step(range(SLOTS), user(frame), NOBODY)
            again = slots.step(range(SLOTS), user(frame), NOBODY)
            slots.commit(range(SLOTS), ALL)
        assert torch.equal(first.hidden, again.hidden)
        assert torch.equal(first.decided, again.decided)


def test_whole_ring_and_cut_ring_are_bit_equal() -> None:
    whole, cut = make(), make()
    for slots in (whole, cut):
        for slot in range(SLOTS):
            admit(slots, slot)
    for frame in range(20):
        ours = advance(cut, frame)
        with torch.inference_mode():
            theirs = whole.step(range(SLOTS), user(frame), NOBODY, None)
            whole.commit(range(SLOTS), ALL)
        assert torch.equal(ours.hidden, theirs.hidden)


def test_idle_neighbours_full_of_nan_are_not_heard() -> None:  # contract: I6
    alone, crowded = make(), make()
    for slots in (alone, crowded):
        admit(slots, 1)
    crowded.state.ring.k[:, [0, 2]] = torch.nan
    crowded.state.ring.v[:, [0, 2]] = torch.nan
    on = torch.tensor([False, True, False])
    for frame in range(70):
        ours, theirs = advance(crowded, frame, on=on), advance(alone, frame, on=on)
        assert torch.equal(ours.hidden[1], theirs.hidden[1])
        assert ours.finite.tolist() == [False, True, False]


def test_hold_forces_padding_and_silence_and_lets_go() -> None:  # contract: I7
    slots, free = make(), make()
    for made in (slots, free):
        for slot in range(SLOTS):
            admit(made, slot)
    held = torch.tensor([False, True, False])
    for frame in range(6):
        ours, theirs = advance(slots, frame, held), advance(free, frame)
        assert torch.equal(ours.codes[0], theirs.codes[0])
        if frame > 0:
            assert ours.text[1] == CONFIG.lm.existing_text_padding_id
            assert ours.codes[1].tolist() == list(CONFIG.silence_codes)
    assert slots.state.position.tolist() == free.state.position.tolist()
    advance(slots, 6)
    assert advance(slots, 7).codes[1].tolist() != list(CONFIG.silence_codes)


def test_seeded_calls_say_the_same_in_any_slot() -> None:  # contract: I4
    said = []
    for slot, others in ((0, [1, 2]), (2, [0])):
        slots = make(sampling=True)
        for other in others:
            admit(slots, other, Sampling(seed=77 + other))
        admit(slots, slot, Sampling(seed=5))
        frames = [advance(slots, frame) for frame in range(10)]
        said.append([(int(f.text[slot]), f.codes[slot].tolist()) for f in frames])
    assert said[0] == said[1]
    greedy = make(sampling=True)
    admit(greedy, 0)
    frames = [advance(greedy, frame) for frame in range(10)]
    assert [(int(f.text[0]), f.codes[0].tolist()) for f in frames] != said[0]


def test_a_seeded_call_needs_slots_made_for_it() -> None:
    with pytest.raises(ValueError, match="greedy calls only"):
        admit(make(), 0, Sampling(seed=1))


@pytest.mark.parametrize("far", [45_000 * 24, 2**31 - 2], ids=["a day", "years"])
def test_positions_go_on_past_the_ring(far: int) -> None:
    aged, young = make(), make()
    for slots in (aged, young):
        for slot in range(SLOTS):
            admit(slots, slot)
    aged.state.integers.old[1, aged.state.position_key.offset] = far
    for frame in range(5):
        before = aged.state.ring.k[:, 1].clone()
        ours, theirs = advance(aged, frame), advance(young, frame)
        written = (aged.state.ring.k[:, 1] != before).any(-1).any(1)
        assert written.nonzero()[:, 1].unique().tolist() == [(far + frame) % CONTEXT]
        assert int(ours.position[1]) == far + frame and bool(ours.finite.all())
        assert torch.equal(ours.hidden[[0, 2]], theirs.hidden[[0, 2]]), "neighbours stay young"


def test_codes_before_any_prompt_stay_within_the_codecs_tables() -> None:
    out = advance(make(), 0)
    assert int(out.codes.max()) < CONFIG.lm.card
