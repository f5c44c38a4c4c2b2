"""Gate B: between one row and all rows nothing but rounding changes, and that is measured."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch import Tensor

from model.core import FrameResult
from model.lm_slots import LMSlots
from model.modes import prepare_fastest
from model.prefill import prefill
from tests.conftest import SEED
from tests.unit.model.engine.harness import Caller
from tests.unit.model.engine.real import (
    CONFIG,
    RealRig,
    Track,
    packed_share,
    packing,
    read_prompt,
    said,
    weights,
)

pytestmark = pytest.mark.unit
ROWS, SLOT, STEPS = 8, 5, 60
BOUND = 1e-4
RELATIVE_BOUND = 2e-5
"""For depformer logits, which random weights make ten times as large as a trained model's."""


class Forced:
    """One call in a bucket of its size, forced to what the call in the other bucket decided."""

    def __init__(self, rows: int, slot: int) -> None:
        lm, _ = weights()
        self.slots = LMSlots(prepare_fastest(lm, rows)[0], CONFIG, rows)
        self.rows, self.slot = rows, slot
        track = Track.draw(1, 1)
        self.slots.admit(slot, prefill(lm, CONFIG, read_prompt(track.spec)), None)

    def step(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Text logits `[V]` and hidden `[D]` of the call."""
        stepped = torch.arange(self.rows) == self.slot
        held = torch.zeros(self.rows, dtype=torch.bool)
        user = torch.where(stepped[:, None], codes, 0)
        output = self.slots.step(range(self.rows), user, held)
        self.slots.commit(range(self.rows), stepped)
        return output.text_logits[self.slot], output.hidden[self.slot]

    def codebooks(self, hidden: Tensor, previous: list[int]) -> list[Tensor]:
        """Depformer logits after the tokens `previous`, 8 of them, whatever it would decide."""
        loop = self.slots._steps[self.rows].depformer
        wide = hidden.expand(self.rows, -1).contiguous()
        projected = self.slots.prepared.depformer_in(wide)
        tokens = [torch.full((self.rows,), token) for token in previous]
        return [loop.step(k, projected[k], tokens[k])[self.slot] for k in range(8)]

    def copy_tokens(self, other: Forced) -> None:
        for mine, theirs in zip(self._columns(), other._columns(), strict=True):
            mine.copy_(theirs)

    def _columns(self) -> tuple[Tensor, ...]:
        integers = self.slots.state.integers
        return integers.old[self.slot], integers.new[self.slot]


# contract: I2; Gate B
@pytest.mark.parametrize("form", ["plain", "packed"])
@torch.inference_mode()
def test_logits_across_buckets_agree_and_so_does_every_clear_choice(form: str) -> None:
    with packing() if form == "packed" else nullcontext():
        one, many = Forced(1, 0), Forced(ROWS, SLOT)
    assert (packed_share(many.slots.prepared) > 0) is (form == "packed")
    generator = torch.Generator().manual_seed(SEED)
    worst, relative, unclear = 0.0, 0.0, 0
    for _ in range(STEPS):
        codes = torch.randint(CONFIG.lm.card, (1, 8), generator=generator)
        (text_one, hidden), (text_many, other) = one.step(codes), many.step(codes)
        many.copy_tokens(one)
        previous = torch.randint(100, (8,), generator=generator).tolist()
        audio = torch.stack(one.codebooks(hidden, previous))
        audio_many = torch.stack(many.codebooks(hidden, previous))
        worst = max(worst, distance(hidden, other), distance(text_one, text_many))
        relative = max(relative, distance(audio, audio_many) / float(audio.abs().max()))
        unclear += disagreements(text_one[None], text_many[None])
        unclear += disagreements(audio, audio_many)
    print(f"Gate B, {form}: {STEPS} steps, hidden and text within {worst:.1e}")
    print(f"audio {relative:.1e} of scale; {unclear} of {9 * STEPS} choices within twice the error")
    assert worst <= BOUND and relative <= RELATIVE_BOUND
    assert unclear <= 9 * STEPS // 100, "hardly a choice is too close to be compared"


def distance(a: Tensor, b: Tensor) -> float:
    assert bool((a.isfinite() & b.isfinite()).all()), "NaN would keep any bound"
    return float((a - b).abs().max())


def disagreements(a: Tensor, b: Tensor) -> int:
    """Rows `[N, V]` too close to call; where the margin is clear the choices must be equal."""
    top = a.topk(2).values
    clear = top[:, 0] - top[:, 1] > 2 * distance(a, b)
    assert bool((a.argmax(-1) == b.argmax(-1))[clear].all())
    return int((~clear).sum())


# contract: I2; Gate B
def test_a_call_goes_on_when_another_joins_and_the_bucket_changes() -> None:
    rig = RealRig(4, fixed_rows=False)
    first, second = rig.caller(Track.draw(1, 12)), None
    rig.tick(3)
    for turn in range(12):
        if turn == 6:
            second = rig.caller(Track.draw(2, 12))
            rig.tick(3)
        for caller in filter(None, (first, second)):
            caller.play()
        rig.settle()
    assert len(first.results) == 12 and second is not None and len(second.results) == 6
    assert rig.engine.stats().bucket_changes == 1
    assert not first.failures and not second.failures


def lone_call(rig: RealRig, track: Track, slot: int = 0) -> list[FrameResult]:
    """What a call hears that is the only live one; those below it are open and not bound."""
    others = [Caller(rig.engine).open() for _ in range(slot)]
    caller = rig.caller(track)
    assert caller.handle.slot == slot
    for _ in track.pcm:
        caller.play()
        rig.settle()
    assert not caller.failures and not any(other.failures for other in others)
    return caller.results


# contract: I2; Gate B
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_lone_call_hears_from_one_row_what_all_rows_say(seed: int) -> None:
    track = Track.draw(seed, 24)
    alone, beside = RealRig(4, fixed_rows=False), RealRig(4)
    one, many = lone_call(alone, track), lone_call(beside, track)
    assert alone.engine._rows == range(1) and beside.engine._rows == range(4)
    assert [(r.text_token, r.codes) for r in one] == [(r.text_token, r.codes) for r in many]
    pairs = zip(one, many, strict=True)
    worst = max(float(np.abs(a.pcm - b.pcm).max()) for a, b in pairs)
    loudest = max(float(np.abs(result.pcm).max()) for result in one)
    print(f"Gate B: {len(one)} frames, samples within {worst:.1e} of {loudest:.1e}")
    assert worst <= RELATIVE_BOUND * loudest


# contract: I2; Gate A
def test_a_lone_call_hears_the_same_in_any_slot() -> None:
    track, rig = Track.draw(1, 24), RealRig(4, fixed_rows=False)
    last = lone_call(rig, track, slot=3)
    assert rig.engine._rows == range(3, 4)
    assert said(last) == said(lone_call(RealRig(4, fixed_rows=False), track))
