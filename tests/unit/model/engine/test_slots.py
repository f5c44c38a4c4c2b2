"""Capacity, handles and bounds, on the fake stepper."""

import pytest

from model.core import InputOverflow, ResourceExhausted
from model.slots import NO_EPOCH
from tests.unit.model.engine.harness import A, B, Rig, frame

pytestmark = pytest.mark.unit


# contract: A1
@pytest.mark.parametrize("slots", [1, 2, 3])
def test_max_sessions_is_the_only_capacity(slots: int) -> None:
    rig = Rig(slots)
    callers = rig.seated(*[A] * slots)
    stats = rig.engine.stats()
    assert rig.engine.max_sessions == stats.max_sessions == stats.used == slots
    with pytest.raises(ResourceExhausted) as refusal:
        rig.caller(A)
    assert (refusal.value.current, refusal.value.maximum) == (slots, slots)
    assert refusal.value.retryable
    rig.round(*callers)
    assert [len(caller.results) for caller in callers] == [1] * slots


# contract: A2
def test_an_open_call_counts_before_it_is_bound() -> None:
    rig = Rig(1)
    rig.caller(None)
    with pytest.raises(ResourceExhausted):
        rig.caller(None)


# contract: A3
def test_a_slot_is_held_until_its_cleanup_succeeded_and_comes_back_once() -> None:
    rig = Rig(1)
    (caller,) = rig.seated(A)
    rig.stepper.cleanups_that_fail = 2
    caller.close()
    for _ in range(2):
        rig.ticks(3)
        assert rig.engine.stats().used == 1 and not caller.released
        with pytest.raises(ResourceExhausted):
            rig.caller(A)
        rig.clock.now += 5.0
    rig.ticks(3)
    assert rig.engine.stats().used == 0 and caller.released == 1
    assert rig.engine.stats().failed_cleanups == 2
    caller.close()
    rig.ticks(2)
    assert caller.released == 1


# contract: A3
def test_a_failed_cleanup_is_not_retried_before_five_seconds() -> None:
    rig = Rig(1)
    (caller,) = rig.seated(A)
    rig.stepper.cleanups_that_fail = 1
    caller.close()
    rig.ticks(1)
    rig.clock.now += 4.9
    rig.ticks(3)
    assert rig.engine.stats().used == 1
    rig.clock.now += 0.2
    rig.ticks(1)
    assert rig.engine.stats().used == 0


# contract: A4
def test_a_hundred_restarts_of_every_slot_at_capacity_need_no_further_slot() -> None:
    rig = Rig(3)
    callers = rig.seated(A, A, B)
    for _ in range(100):
        for caller in callers:
            caller.restart()
        rig.ticks(3)
        rig.round(*callers)
        assert rig.engine.stats().used == 3
    assert [caller.epoch for caller in callers] == [100] * 3
    assert all(len(caller.results) == 100 for caller in callers)
    assert all([r.epoch for r in c.results] == list(range(1, 101)) for c in callers)


# contract: E3
def test_a_superseded_handle_changes_nothing_even_after_the_slot_has_a_new_owner() -> None:
    rig = Rig(1)
    (old,) = rig.seated(A)
    old.close()
    rig.ticks(2)
    (new,) = rig.seated(A)
    assert new.handle.slot == old.handle.slot
    rig.engine.close(old.handle)
    rig.engine.hold(old.handle, True)
    rig.engine.bind(old.handle, B)
    rig.engine.submit(old.handle, 0, 1, frame())
    assert rig.engine.restart(old.handle) == NO_EPOCH
    rig.round(new)
    assert rig.engine.stats().used == 1
    assert len(new.results) == 1 and not new.results[0].held and new.results[0].epoch == 0
    assert old.results == [] and old.released == 1


# contract: C3
def test_a_repeated_frame_neither_encodes_nor_steps() -> None:
    rig = Rig(1)
    (caller,) = rig.seated(A)
    caller.submit()
    rig.engine.submit(caller.handle, 0, 1, frame(0.5))
    rig.ticks(3)
    rig.engine.submit(caller.handle, 0, 1, frame(0.5))
    rig.ticks(3)
    assert len(caller.results) == rig.engine.stats().encoded == rig.engine.stats().steps == 1


# contract: C3
def test_a_gap_in_seq_is_refused() -> None:
    rig = Rig(1)
    (caller,) = rig.seated(A)
    with pytest.raises(ValueError):
        rig.engine.submit(caller.handle, 0, 2, frame())


# contract: C4
def test_submit_refuses_at_its_bound_and_drops_nothing() -> None:
    rig = Rig(2)
    caller, other = rig.seated(A, A)
    accepted = 0
    for _ in range(100):
        try:
            caller.submit()
            accepted += 1
        except InputOverflow:
            pass
    assert accepted == 25 and rig.engine.stats().waiting_frames == 25
    for _ in range(60):
        rig.ticks(1)
        rig.clock.now += 0.010
    assert [r.seq for r in caller.results] == list(range(1, 26))
    assert rig.engine.stats().waiting_frames == 0
    caller.submit()
    rig.ticks(1)
    assert caller.results[-1].seq == 26
    assert other.results == []


# contract: C4
def test_a_refused_frame_keeps_its_number() -> None:
    rig = Rig(1)
    caller = rig.caller(A, queue_frames=1)
    caller.submit(0.1)
    with pytest.raises(InputOverflow):
        caller.submit(0.2)
    rig.ticks(4)
    caller.submit(0.2)
    rig.ticks(2)
    assert [r.seq for r in caller.results] == [1, 2]


# contract: C6
def test_n_frames_in_are_n_frames_out() -> None:
    rig = Rig(2)
    callers = rig.seated(A, B)
    for turn in range(30):
        rig.round(callers[turn % 2])
    rig.ticks(1)
    assert [len(caller.results) for caller in callers] == [15, 15]
    assert [r.position for r in callers[0].results] == list(range(40, 55))
    assert [r.position for r in callers[1].results] == list(range(200, 215))


def test_frames_wait_for_bound() -> None:
    rig = Rig(1)
    caller = rig.caller(None)
    caller.submit(0.1)
    rig.ticks(2)
    assert caller.events == []
    rig.engine.bind(caller.handle, A)
    rig.ticks(3)
    assert len(caller.bound) == 1 and len(caller.results) == 1


def test_a_call_is_bound_once() -> None:
    rig = Rig(1)
    (caller,) = rig.seated(A)
    with pytest.raises(ValueError):
        rig.engine.bind(caller.handle, B)
