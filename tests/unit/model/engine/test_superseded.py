"""A handle, step or prefill that outlives its call, on the real model: the next owner hears none.

What the new owner says is compared bit for bit with its run alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from model.core import EngineEvent, Handle, Released, SessionSpec
from model.slots import NO_EPOCH
from tests.unit.model.engine.real import (
    VOICES,
    WHOLE_TINY,
    RealCaller,
    RealRig,
    Said,
    Track,
)

pytestmark = pytest.mark.unit
FRAMES = 8
FORMER, TRACK = Track.draw(3, FRAMES), Track.draw(1, FRAMES)
LONG = 120
"""Frames of a voice whose prefill takes several chunks."""
Deed = Callable[[RealRig, Handle, int], object]
LATE: dict[str, Deed] = {
    "cancel": lambda rig, handle, turn: rig.engine.restart(handle),
    "close": lambda rig, handle, turn: rig.engine.close(handle),
    "hold": lambda rig, handle, turn: rig.engine.hold(handle, True),
    "bind": lambda rig, handle, turn: rig.engine.bind(handle, FORMER.spec),
    "submit": lambda rig, handle, turn: rig.engine.submit(handle, 0, turn + 1, FORMER.pcm[turn]),
}
"""What a former owner may do when its slot is another's; its frame has the number that is due."""


@pytest.fixture(scope="module")
def alone() -> list[Said]:
    return RealRig(1).alone(TRACK)


def seat(rig: RealRig, track: Track) -> RealCaller:
    caller = rig.caller(track)
    rig.tick(6)
    assert caller.bound
    return caller


def left_behind(rig: RealRig) -> RealCaller:
    """A former owner that was stepped and went while frames of its own waited."""
    former = seat(rig, FORMER)
    former.play()
    rig.settle()
    former.play()
    former.play()
    former.close()
    rig.tick(2)
    assert former.released == 1 and len(former.results) == 1
    return former


def succeed(rig: RealRig, former: RealCaller, alone: list[Said], late: Deed | None = None) -> None:
    """A new owner plays its whole track, and before each frame the former owner does its deed."""
    heard: list[EngineEvent] = list(former.events)
    owner = seat(rig, TRACK)
    assert owner.handle.slot == former.handle.slot
    for turn in range(FRAMES):
        if late is not None:
            late(rig, former.handle, turn)
        owner.play()
        rig.settle()
    assert owner.of_epoch(0) == alone and len(alone) == FRAMES
    assert not owner.failures and not any(result.held for result in owner.results)
    assert former.events == heard, "nothing is delivered to who has gone"
    assert rig.engine.stats().used == 1


# contract: E3
@pytest.mark.parametrize("deed", LATE)
def test_a_late_deed_of_the_former_owner_changes_nothing(deed: str, alone: list[Said]) -> None:
    rig = RealRig(1)
    former = left_behind(rig)
    assert rig.engine.restart(former.handle) == NO_EPOCH
    succeed(rig, former, alone, LATE[deed])


def during_the_next_step(rig: RealRig, deed: Callable[[], None]) -> None:
    """The deed is done when the device has the step's result and nobody else has."""
    work = rig.stepper.step

    def work_then_do(*args: Any) -> Any:
        rig.stepper.step = work  # type: ignore[method-assign]
        output = work(*args)
        deed()
        return output

    rig.stepper.step = work_then_do  # type: ignore[method-assign]


# contract: E3
def test_a_result_that_comes_after_its_call_was_closed_is_nobodys(alone: list[Said]) -> None:
    rig = RealRig(1)
    former = seat(rig, FORMER)
    during_the_next_step(rig, former.close)
    former.play()
    rig.tick(3)
    assert rig.engine.stats().steps == 1 and isinstance(former.events[-1], Released)
    assert not former.results
    succeed(rig, former, alone)


# contract: E1, E3
def test_a_result_that_comes_after_its_epoch_is_not_the_next_ones(alone: list[Said]) -> None:
    rig = RealRig(1)
    caller = seat(rig, TRACK)
    during_the_next_step(rig, caller.restart)
    caller.play()
    rig.tick(3)
    assert rig.engine.stats().steps == 1 and not caller.results and caller.epoch == 1
    for _ in range(FRAMES):
        caller.play()
        rig.settle()
    assert not caller.of_epoch(0) and caller.of_epoch(1) == alone


# contract: E3
def test_a_prefill_that_outlives_its_call_seats_nobody() -> None:
    """It goes on for who may ask for the same prompt next; the slot's new owner does not."""
    rig, fresh = (
        RealRig(1, config=WHOLE_TINY, voices={**VOICES, "long.pt": LONG}) for _ in range(2)
    )
    former = rig.caller(dataclasses.replace(FORMER, spec=SessionSpec("long.pt", "")))
    rig.tick()
    former.close()
    rig.tick()
    stats = rig.engine.stats()
    assert former.released == 1 and not former.bound
    assert stats.prefill_chunks > 0 and stats.prefills == 0, "it is under way"
    succeed(rig, former, fresh.alone(TRACK))
    assert rig.engine.stats().prefills == 2
