"""One whole frame: staged until the end, finite row by row, driven by sound or by codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import Tensor

from model.config import CodecTransformerConfig
from model.core import FRAME_SAMPLES, Sampling
from model.lm import LanguageModel
from model.mimi import Mimi, StreamingMimi
from model.prefill import Prefix, prefill
from model.presets import TINY
from model.prompt import build_prompt_from_codes
from model.random_weights import build_lm, build_mimi, random_weights
from model.step import FrameOutput, FrameStep

pytestmark = pytest.mark.unit

CONFIG = replace(
    TINY,
    lm=replace(TINY.lm, context=48, dep_q=8, depformer_num_layers=1),
    mimi=replace(
        TINY.mimi,
        transformer=CodecTransformerConfig(
            d_model=64, num_heads=4, num_layers=1, context=20, dim_feedforward=128
        ),
    ),
)
SLOTS = 3
ROWS = range(SLOTS)
NOBODY, ALL = torch.zeros(SLOTS, dtype=torch.bool), torch.ones(SLOTS, dtype=torch.bool)


@cache
def weights() -> tuple[LanguageModel, Mimi]:
    drawn = random_weights(CONFIG, 3)
    return build_lm(CONFIG.lm, drawn.lm), build_mimi(CONFIG, drawn.mimi)


@cache
def prefix() -> Prefix:
    codes = torch.arange(8 * 4).view(8, 4)
    return prefill(weights()[0], CONFIG, build_prompt_from_codes(codes, [7, 8], CONFIG))


def seated() -> FrameStep:
    step = FrameStep(*weights(), CONFIG, SLOTS)
    for slot in ROWS:
        step.admit(slot, prefix(), None)
    return step


def sound(frame: int) -> Tensor:
    generator = torch.Generator().manual_seed(frame)
    return 0.1 * torch.randn(SLOTS, FRAME_SAMPLES, generator=generator)


def advance(step: FrameStep, pcm: Tensor, positions: Sequence[int] | None = None) -> FrameOutput:
    output = step.step(ROWS, pcm, NOBODY, positions)
    step.commit(ROWS, ALL)
    return output


def same(ours: FrameOutput, theirs: FrameOutput, row: int) -> bool:
    pairs = ((ours.pcm, theirs.pcm), (ours.text, theirs.text), (ours.codes, theirs.codes))
    return all(torch.equal(a[row], b[row]) for a, b in pairs)


def test_a_step_that_raises_has_changed_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    # contract: I5
    troubled, calm = seated(), seated()
    right = StreamingMimi.decode

    def fails(*args: object) -> Tensor:
        raise RuntimeError("no memory")

    for frame in range(25):
        monkeypatch.setattr(StreamingMimi, "decode", fails)
        with pytest.raises(RuntimeError, match="no memory"):
            advance(troubled, sound(999))
        monkeypatch.setattr(StreamingMimi, "decode", right)
        ours = advance(troubled, sound(frame))
        theirs = advance(calm, sound(frame))
        assert all(same(ours, theirs, row) for row in ROWS)


@pytest.mark.parametrize(
    "stage",
    ["carry", "temporal_k", "temporal_v", "encoder_k", "encoder_v", "decoder_k", "decoder_v"],
)
def test_nan_in_the_state_of_one_row_is_flagged_there_alone(stage: str) -> None:  # contract: I5
    broken, whole = seated(), seated()
    for frame in range(3):
        advance(broken, sound(frame))
        advance(whole, sound(frame))
    broken.state_tensors(1)[stage].fill_(torch.nan)
    ours = advance(broken, sound(3))
    theirs = advance(whole, sound(3))
    assert ours.finite.tolist() == [True, False, True]
    assert theirs.finite.tolist() == [True] * SLOTS
    assert same(ours, theirs, 0) and same(ours, theirs, 2)


def test_nan_in_the_sound_is_flagged() -> None:
    step, pcm = seated(), sound(0)
    pcm[2, 100] = torch.nan
    assert advance(step, pcm).finite.tolist() == [True, True, False]


def test_a_poisoned_slot_is_as_new_after_admission() -> None:  # contract: A5, I6
    used, fresh = seated(), seated()
    for frame in range(5):
        advance(used, sound(frame))
    for slot in ROWS:
        used.poison(slot)
        used.admit(slot, prefix(), None)
    for frame in range(30):
        ours = advance(used, sound(frame))
        theirs = advance(fresh, sound(frame))
        assert all(same(ours, theirs, row) for row in ROWS)


def test_cutting_rings_to_the_longest_call_changes_no_bit() -> None:
    cut, whole = seated(), seated()
    for frame in range(40):
        positions = [prefix().positions + frame] * SLOTS
        ours = advance(cut, sound(frame), positions)
        theirs = advance(whole, sound(frame))
        assert all(same(ours, theirs, row) for row in ROWS)


@pytest.mark.parametrize("far", [45_000 * 24, 2**30 - 2, 2**31 - 2], ids=["a day", "3 y", "6 y"])
def test_the_codec_counts_on_for_years_and_no_neighbour_hears_it(far: int) -> None:
    """Two positions a frame: they pass 31 bits before the frames do."""
    aged, young = seated(), seated()
    place = aged.lm_slots.state
    place.integers.old[1, place.position_key.offset] = far + prefix().positions
    aged.codec_state.frames[1] = far
    rings = (aged.codec_state.encoder.k[0, 1], aged.codec_state.decoder.k[0, 1])
    for frame in range(5):
        before = [ring.clone() for ring in rings]
        at = prefix().positions + frame
        ours = advance(aged, sound(frame), [at, far + at, at])
        theirs = advance(young, sound(frame), [at] * SLOTS)
        for ring, old in zip(rings, before, strict=True):
            written = (ring != old).any(-1).any(0).nonzero().flatten().tolist()
            cells = [(2 * (far + frame) + half) % aged.codec.capacity for half in range(2)]
            assert written == sorted(cells)
        assert int(ours.position[1]) == far + at and ours.finite.tolist() == [True] * SLOTS
        assert same(ours, theirs, 0) and same(ours, theirs, 2)
        assert int(aged.codec_state.frames[1]) == far + frame + 1


def test_codes_take_the_place_of_sound() -> None:
    by_sound, by_codes = seated(), seated()
    for frame in range(15):
        with torch.inference_mode():
            carry = by_codes.carry.rows(0, SLOTS)
            state = by_codes.codec_state.rows(0, SLOTS)
            pcm = sound(frame)[:, None]
            codes = by_codes.codec.encode(pcm, state, carry, by_codes.codec.capacity)
        ours = by_codes.step_codes(ROWS, codes, NOBODY)
        by_codes.commit(ROWS, ALL)
        theirs = advance(by_sound, sound(frame))
        assert all(same(ours, theirs, row) for row in ROWS)


def test_first_live_frame_is_at_the_end_of_the_prompt() -> None:
    step = seated()
    out = advance(step, sound(0))
    assert out.position.tolist() == [prefix().positions] * SLOTS
    assert out.pcm.shape == (SLOTS, FRAME_SAMPLES)
    assert out.codes[:, 1:].tolist() != [list(CONFIG.silence_codes[1:])] * SLOTS


def test_seeded_calls_stand_beside_greedy_ones() -> None:
    mixed = FrameStep(*weights(), CONFIG, SLOTS, sampling=True)
    greedy = seated()
    for slot, sampling in enumerate((None, Sampling(seed=4), None)):
        mixed.admit(slot, prefix(), sampling)
    for frame in range(10):
        ours = advance(mixed, sound(frame))
        theirs = advance(greedy, sound(frame))
        assert same(ours, theirs, 0) and same(ours, theirs, 2)
    assert not same(ours, theirs, 1)
