"""Restarts and holds, on the fake stepper."""

import pytest

from tests.unit.model.engine.harness import A, B, Rig, frame

pytestmark = pytest.mark.unit


# contract: E1
def test_a_new_epoch_releases_the_old_state_before_it_replays_the_prefix() -> None:
    rig = Rig(1)
    (caller,) = rig.seated(A)
    rig.round(caller)
    rig.stepper.log.clear()
    caller.restart()
    caller.submit()
    rig.ticks(3)
    assert rig.stepper.log == ["release 0", "admit 0", "step"]
    assert [bound.epoch for bound in caller.bound] == [0, 1]
    assert caller.results[-1].epoch == 1 and caller.results[-1].seq == 1


# contract: E1
def test_a_new_epoch_remembers_nothing() -> None:
    rig = Rig(1)
    (caller,) = rig.seated(A)
    for value in (0.1, 0.2, 0.3):
        rig.round(caller, value=value)
    caller.restart()
    rig.ticks(3)
    for value in (0.1, 0.2, 0.3):
        rig.round(caller, value=value)
    heard = caller.heard()
    assert len(heard) == 6 and heard[:3] == heard[3:]


# contract: E1
def test_frames_waiting_at_a_restart_are_dropped_with_their_epoch() -> None:
    rig = Rig(1)
    (caller,) = rig.seated(A)
    for _ in range(3):
        caller.submit()
    caller.restart()
    rig.engine.submit(caller.handle, 0, 4, frame())
    rig.ticks(5)
    assert caller.results == [] and rig.engine.stats().waiting_frames == 0


# contract: E1
def test_a_restart_whose_cleanup_fails_is_replayed_after_the_reaper_came() -> None:
    rig = Rig(1)
    (caller,) = rig.seated(A)
    rig.stepper.cleanups_that_fail = 1
    caller.restart()
    caller.submit()
    rig.ticks(3)
    assert len(caller.bound) == 1
    rig.clock.now += 5
    rig.ticks(3)
    assert caller.bound[-1].epoch == 1 and len(caller.results) == 1


# contract: E3
def test_a_result_of_a_superseded_epoch_is_not_delivered() -> None:
    rig = Rig(1)
    (caller,) = rig.seated(A)
    step = rig.stepper.step

    def restart_meanwhile(*args: object) -> object:
        caller.restart()
        return step(*args)  # type: ignore[arg-type]

    rig.stepper.step = restart_meanwhile  # type: ignore[method-assign, assignment]
    caller.submit()
    rig.ticks(1)
    assert caller.results == []
    rig.stepper.step = step  # type: ignore[method-assign]
    rig.ticks(2)
    assert caller.bound[-1].epoch == 1


def test_a_restart_before_binding_counts_an_epoch_and_reads_nothing() -> None:
    rig = Rig(1)
    caller = rig.caller(None)
    caller.restart()
    assert caller.epoch == 1
    rig.engine.bind(caller.handle, B)
    rig.ticks(6)
    assert caller.bound[0].epoch == 1


# contract: I7
def test_a_hold_reaches_the_next_step_and_ends_with_the_epoch() -> None:
    rig = Rig(1)
    (caller,) = rig.seated(A)
    rig.round(caller)
    rig.engine.hold(caller.handle, True)
    rig.round(caller)
    rig.engine.hold(caller.handle, False)
    rig.round(caller)
    rig.engine.hold(caller.handle, True)
    caller.restart()
    rig.ticks(3)
    rig.round(caller)
    assert [r.held for r in caller.results] == [False, True, False, False]
