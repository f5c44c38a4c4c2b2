"""Rows that fail alone, steps that are retried, devices that die, on the fake stepper."""

import asyncio
from functools import partial

import numpy as np
import pytest

from model.core import EngineEvent, EngineFault, FrameResult, InputOverflow
from tests.unit.model.engine.harness import A, B, Caller, Rig

pytestmark = pytest.mark.unit


# contract: I5
def test_a_row_that_is_not_finite_fails_alone() -> None:
    rig, quiet = Rig(3), Rig(3)
    callers, others = rig.seated(A, A, A), quiet.seated(A, A, A)
    for turn in range(4):
        rig.stepper.not_finite = {1} if turn == 2 else set()
        rig.round(*callers, value=turn)
        quiet.round(*others, value=turn)
    assert [f.code for f in callers[1].failures] == ["row_failed"]
    assert [len(caller.results) for caller in callers] == [4, 2, 4]
    assert [callers[i].heard() for i in (0, 2)] == [others[i].heard() for i in (0, 2)]
    assert rig.engine.stats().failed_rows == 1 and rig.engine.stats().used == 3


# contract: I5
@pytest.mark.parametrize(
    "pcm", [np.full(1920, np.nan, np.float32), np.zeros(1919, np.float32)], ids=["nan", "short"]
)
def test_a_bad_frame_fails_its_call_before_the_batch(pcm: np.ndarray) -> None:
    rig = Rig(2)
    good, bad = rig.seated(A, A)
    rig.engine.submit(bad.handle, 0, 1, pcm)
    good.submit()
    rig.ticks(2)
    assert [f.code for f in bad.failures] == ["invalid_frame"]
    assert len(good.results) == 1 and rig.stepper.stepped == [(0,)]


# contract: I5
def test_a_step_that_raises_once_is_retried_and_the_run_is_equal() -> None:
    rig, quiet = Rig(2), Rig(2)
    callers, others = rig.seated(A, A), quiet.seated(A, A)
    for turn in range(4):
        rig.stepper.raises = [RuntimeError("once")] if turn == 2 else []
        rig.round(*callers, value=turn)
        quiet.round(*others, value=turn)
    assert [c.heard() for c in callers] == [c.heard() for c in others]
    assert [len(caller.results) for caller in callers] == [4, 4]
    stats = rig.engine.stats()
    assert (stats.retried_steps, stats.failed_rows, stats.faulted) == (1, 0, False)


# contract: I5
def test_a_step_that_raises_twice_is_a_device_fault() -> None:
    rig = Rig(3)
    callers = rig.seated(A, A)
    unbound = rig.caller(None)
    rig.stepper.raises = [RuntimeError("once"), RuntimeError("twice")]
    rig.round(*callers)
    assert all([f.code for f in c.failures] == ["engine_fault"] for c in [*callers, unbound])
    assert rig.engine.stats().faulted
    with pytest.raises(EngineFault):
        rig.caller(A)
    assert isinstance(rig.engine.prepare(B).exception(timeout=0), EngineFault)
    for caller in [*callers, unbound]:
        caller.close()
    rig.ticks(1)
    assert [c.released for c in [*callers, unbound]] == [1, 1, 1]


# contract: I5
def test_a_prepare_under_way_ends_with_the_device() -> None:
    rig = Rig(1)
    (caller,) = rig.seated(A)
    rig.reader.held = True
    prepared = rig.engine.prepare(B)
    rig.stepper.raises = [RuntimeError("once"), RuntimeError("twice")]
    rig.round(caller)
    assert isinstance(prepared.exception(timeout=0), EngineFault)


# contract: I5
def test_a_cuda_error_is_a_device_fault_without_a_retry() -> None:
    rig = Rig(1)
    (caller,) = rig.seated(A)
    rig.stepper.raises = [RuntimeError("CUDA error: an illegal memory access was encountered")]
    rig.round(caller)
    assert [f.code for f in caller.failures] == ["engine_fault"]
    assert rig.engine.stats().retried_steps == 0


# contract: I5
def test_a_failing_admission_fails_its_call_alone() -> None:
    rig = Rig(2)
    (good,) = rig.seated(A)
    rig.stepper.states[1] = 0  # the fake refuses to admit into a slot that is not clean
    bad = rig.caller(A)
    good.submit()
    rig.ticks(2)
    assert [f.code for f in bad.failures] == ["row_failed"] and len(good.results) == 1
    bad.close()
    rig.ticks(1)
    assert bad.released == 1


# contract: I1
def test_a_closed_loop_is_counted_and_hurts_nobody() -> None:
    rig = Rig(2)
    (good,) = rig.seated(A)
    deaf = Caller(rig.engine)

    def closed_loop(event: EngineEvent) -> None:
        if isinstance(event, FrameResult):
            raise RuntimeError("Event loop is closed")

    deaf.handle = rig.engine.open(closed_loop)
    rig.engine.bind(deaf.handle, A)
    rig.ticks(2)
    for _ in range(3):
        rig.round(good, deaf)
    assert rig.engine.stats().undelivered == 3 and len(good.results) == 3
    assert rig.engine.stats().frames == 6


# contract: C4, I1
def test_a_consumer_that_stops_is_owed_a_full_queue_at_most_and_then_gets_it_in_order() -> None:
    """A call's frames come from the loop that takes its results: while it stands, neither moves."""
    rig = Rig(2)
    (good,) = rig.seated(A)
    loop, slow = asyncio.new_event_loop(), Caller(rig.engine)
    slow.handle = rig.engine.open(partial(loop.call_soon_threadsafe, slow.events.append))
    rig.engine.bind(slow.handle, A)
    rig.ticks(2)
    with pytest.raises(InputOverflow):
        for _ in range(100):
            slow.submit()
    assert (slow.seq, rig.engine.stats().waiting_frames) == (25, 25)
    for _ in range(40):
        rig.round(good)
    assert len(good.results) == 40 and not slow.events
    assert rig.engine.stats().waiting_frames == 0
    assert rig.engine.stats().frames == 65 and rig.engine.stats().undelivered == 0
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()
    assert [result.seq for result in slow.results] == list(range(1, 26)) and len(slow.bound) == 1


# contract: C4
def test_a_producer_that_stops_delays_the_others_by_ten_milliseconds_at_most() -> None:
    rig = Rig(2)
    one, two = rig.seated(A, A)
    rig.round(one, two)
    one.submit()
    rig.ticks(1)
    assert len(one.results) == 1
    rig.clock.now += 0.0101
    rig.ticks(1)
    assert len(one.results) == 2
    rig.clock.now += 0.2
    one.submit()
    rig.ticks(1)
    assert len(one.results) == 3


# contract: I2
def test_rows_are_chosen_by_the_live_calls_and_changes_are_counted() -> None:
    rig = Rig(3)
    (one,) = rig.seated(A)
    rig.round(one)
    (two,) = rig.seated(A)
    rig.round(one, two)
    rig.clock.now += 0.2
    rig.round(one)
    two.close()
    rig.ticks(1)
    rig.round(one)
    assert [len(rows) for rows in rig.stepper.computed] == [1, 3, 3, 1]
    assert rig.engine.stats().bucket_changes == 2


# contract: I2
def test_pinned_rows_never_change() -> None:
    rig = Rig(3, fixed_rows=True)
    (one,) = rig.seated(A)
    rig.round(one)
    (two,) = rig.seated(A)
    rig.round(one, two)
    assert [len(rows) for rows in rig.stepper.computed] == [3, 3]
    assert rig.engine.stats().bucket_changes == 0
