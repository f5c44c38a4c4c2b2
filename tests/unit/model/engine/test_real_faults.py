"""NaN in one call's state, steps that raise half way, poisoned slots: on the real model."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor

from model import device, graphs
from model.lm_slots import LMSlots
from model.mimi.codec import MimiState
from model.state import Carry
from tests.conftest import SEED
from tests.unit.model.engine.real import RealCaller, RealRig, Said, Track

pytestmark = pytest.mark.unit
SLOTS, FRAMES, TRIALS = 4, 24, 100
RINGS = ("temporal_k", "temporal_v", "encoder_k", "encoder_v", "decoder_k", "decoder_v")
STAGES = ("carry", "depformer", *RINGS)


@pytest.fixture(scope="module")
def alone() -> list[tuple[Track, list[Said]]]:
    tracks = [Track.draw(seed, FRAMES) for seed in (1, 3, 4)]
    return [(track, RealRig(SLOTS).alone(track)) for track in tracks]


def seat(rig: RealRig, alone: list[tuple[Track, list[Said]]]) -> list[RealCaller]:
    callers = [rig.caller(track) for track, _ in alone]
    rig.tick(6)
    assert all(caller.bound for caller in callers)
    return callers


def play_round(rig: RealRig, callers: list[RealCaller]) -> None:
    for caller in callers:
        if caller.seq == FRAMES:
            caller.restart()
            rig.tick(3)
        caller.play()
    rig.settle()


class Injury:
    """Puts NaN where stage `stage` of the victim's next step will meet it."""

    def __init__(self, rig: RealRig, victim: RealCaller, stage: str, random: Random) -> None:
        self.rig, self.victim, self.random = rig, victim, random
        if stage == "depformer":
            self._in_depformer()
        elif stage == "carry":
            carry = rig.step.state_tensors(victim.handle.slot)["carry"]
            carry[random.randrange(len(carry))] = torch.nan
        else:
            self._in_ring(rig.step.state_tensors(victim.handle.slot)[stage], stage)

    def _in_ring(self, ring: Tensor, stage: str) -> None:
        """In the cell written last, which every window sees; `ring` is `[L, H, C, D]`."""
        result = self.victim.results[-1]
        last = result.position if stage.startswith("temporal") else 2 * result.seq - 1
        layer, head, cells, size = (self.random.randrange(n) for n in ring.shape)
        del cells
        ring[layer, head, last % ring.shape[2], size] = torch.nan

    def _in_depformer(self) -> None:
        loop = self.rig.step.lm_slots._steps[SLOTS].depformer
        run, row = loop.run, self.victim.handle.slot

        def injured(hidden: Tensor, *rest: Any) -> Any:
            loop.run = run  # type: ignore[method-assign]
            hidden = hidden.clone()
            hidden[row, self.random.randrange(hidden.shape[1])] = torch.nan
            return run(hidden, *rest)

        loop.run = injured  # type: ignore[method-assign]


# contract: I5, I6
def test_nan_in_one_call_at_any_stage_fails_it_alone(
    alone: list[tuple[Track, list[Said]]],
) -> None:
    random = Random(SEED)
    rig = RealRig(SLOTS)
    callers = seat(rig, alone)
    play_round(rig, callers)
    for trial in range(TRIALS):
        index, stage = random.randrange(len(callers)), STAGES[trial % len(STAGES)]
        victim = callers[index]
        if victim.seq == FRAMES:
            play_round(rig, callers)
        Injury(rig, victim, stage, random)
        play_round(rig, callers)
        (failure,) = victim.failures
        assert failure.code == "row_failed" and failure.message, f"trial {trial}, {stage}"
        victim.close()
        rig.tick(2)
        assert victim.released == 1
        callers[index] = rig.caller(victim.track)
        rig.tick(6)
        play_round(rig, callers)
        for caller, (_, expected) in zip(callers, alone, strict=True):
            heard = caller.of_epoch(caller.epoch)
            assert heard and not caller.failures and heard == expected[: len(heard)], stage
    print(f"{TRIALS} injuries, seed {SEED}: {rig.engine.stats().failed_rows} rows failed alone")
    assert rig.engine.stats().failed_rows == TRIALS


def raise_in(rig: RealRig, where: str, times: int, patch: pytest.MonkeyPatch) -> None:
    """The named stage raises after it has done its work, the next `times` times."""
    owners: dict[str, object] = {
        "encode_latent": rig.step.codec,
        "decode": rig.step.codec,
        "step": rig.step.lm_slots,
    }
    owners |= {"pack": graphs, "unpack": device}
    owner = owners[where]
    work: Callable[..., Any] = getattr(owner, where)
    left = [times]

    def work_then_raise(*args: Any, **kwargs: Any) -> Any:
        result = work(*args, **kwargs)
        if left[0]:
            left[0] -= 1
            raise RuntimeError(f"{where} raised")
        return result

    patch.setattr(owner, where, work_then_raise)


# contract: I5
@pytest.mark.parametrize("where", ["encode_latent", "step", "decode", "pack", "unpack"])
def test_a_step_that_raises_once_is_retried_bit_equally(
    where: str, alone: list[tuple[Track, list[Said]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = RealRig(SLOTS)
    callers = seat(rig, alone)
    for turn in range(8):
        if turn in (0, 5):
            raise_in(rig, where, 1, monkeypatch)
        play_round(rig, callers)
    for caller, (_, expected) in zip(callers, alone, strict=True):
        assert caller.of_epoch(0) == expected[:8]
    assert rig.engine.stats().retried_steps == 2 and not rig.engine.stats().faulted


# contract: I5
@pytest.mark.parametrize("part", ["language model", "codec", "carries"])
def test_a_commit_that_breaks_off_is_a_device_fault_at_once(
    part: str, alone: list[tuple[Track, list[Said]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was adopted before cannot be told from what was not: no second try could be right."""
    owners: dict[str, type] = {"language model": LMSlots, "codec": MimiState, "carries": Carry}
    rig = RealRig(SLOTS)
    callers = seat(rig, alone)
    play_round(rig, callers)

    def breaks(*args: object) -> None:
        raise RuntimeError("the commit raised")

    monkeypatch.setattr(owners[part], "commit", breaks)
    for caller in callers:
        caller.play()
    rig.tick(2)
    assert all([f.code for f in caller.failures] == ["engine_fault"] for caller in callers)
    assert all(len(caller.results) == 1 for caller in callers), "nothing is heard of that step"
    assert rig.engine.stats().faulted and not rig.engine.stats().retried_steps


# contract: I5
def test_a_step_that_raises_twice_ends_every_call_with_engine_fault(
    alone: list[tuple[Track, list[Said]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = RealRig(SLOTS)
    callers = seat(rig, alone)
    raise_in(rig, "decode", 2, monkeypatch)
    for caller in callers:
        caller.play()
    rig.tick(2)
    assert all([f.code for f in caller.failures] == ["engine_fault"] for caller in callers)
    assert rig.engine.stats().faulted
