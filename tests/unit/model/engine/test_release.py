"""What a released slot still holds: NaN, or what the next owner is shown not to read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from tests.unit.model.engine.real import (
    RING_POSITIONS,
    RealCaller,
    RealRig,
    Track,
    said,
    torch_threads,
)
from tests.unit.model.engine.states import changed, copies

pytestmark = pytest.mark.unit
ROWS = 11
"""No other dimension of this model is eleven, so that a tensor's slots are found by its shape."""
SLOT = 0
FRAMES = RING_POSITIONS
"""With the prompt's positions past every ring."""
SEEDED = 3
"""A track with a sampler."""
WRONG = 5
"""A number that any token, position, count, seed or top-k might be."""
IN_PLACE = "integers cannot be NaN; admission and each commit replace them whole"
OVERWRITTEN = "lives for one position of all rows; zeroed or written before it is read"
NOT_POISONED = {
    "frame_step.codec_state.frames": IN_PLACE,
    "frame_step.lm_slots.state.integers.old": IN_PLACE,
    "frame_step.lm_slots.state.integers.new": IN_PLACE,
    "frame_step.lm_slots.sampler.seed": IN_PLACE,
    "frame_step.lm_slots.sampler.top_k_text": IN_PLACE,
    "frame_step.lm_slots.sampler.top_k_audio": IN_PLACE,
    "frame_step.lm_slots._opening.scratch": OVERWRITTEN,
    f"frame_step.lm_slots._steps.{ROWS}.depformer.scratch": OVERWRITTEN,
}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """So that eleven slots are eleven rows."""
    with torch_threads(1):
        yield


def row_of(state: Tensor, slot: int) -> Tensor:
    """The slot's part, a view; all of a tensor that is not kept per slot."""
    axes = [axis for axis, size in enumerate(state.shape) if size == ROWS]
    assert len(axes) <= 1, f"{tuple(state.shape)}: which dimension is the slot's?"
    return state.select(axes[0], slot) if axes else state


def spoil(row: Tensor, fresh: Tensor) -> None:
    """Make useless whatever the last owner left in `row`."""
    row[row != fresh] = torch.nan if row.is_floating_point() else WRONG


def play(rig: RealRig, *callers: RealCaller) -> None:
    """Every frame of each, stepped together."""
    rig.tick(6)
    for _ in range(FRAMES):
        for caller in callers:
            caller.play()
        rig.settle()


# contract: A5, I6
@torch.inference_mode()
def test_nothing_of_a_released_slot_outlives_it_but_what_the_next_owner_cannot_read() -> None:
    former, track = Track.draw(SEEDED, FRAMES), Track.draw(1, FRAMES)
    fresh, rig = RealRig(ROWS).alone(track), RealRig(ROWS)
    before = copies(rig.stepper)
    caller, neighbour = rig.caller(former), rig.caller(Track.draw(0, FRAMES))
    play(rig, caller, neighbour)
    assert caller.handle.slot == SLOT and len(caller.results) == FRAMES
    assert caller.results[-1].position > RING_POSITIONS
    caller.close()
    rig.tick(2)
    assert caller.released == 1
    states = changed(rig.stepper, before)
    kept = {path for path, state in states.items() if not bool(row_of(state, SLOT).isnan().all())}
    assert kept == NOT_POISONED.keys(), "every state is poisoned, or said not to be and why"
    assert all(not row_of(states[path], 1).isnan().any() for path in states), "a neighbour's is not"
    for path in NOT_POISONED:
        spoil(row_of(states[path], SLOT), row_of(before[path], SLOT))
    rig.step.origins[SLOT] = WRONG
    heir = rig.caller(track)
    assert heir.handle.slot == SLOT
    play(rig, heir)
    assert said(heir.results) == fresh
    print(f"{len(states)} states, {len(states) - len(kept)} of them NaN after the release")
