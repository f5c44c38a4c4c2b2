"""When a step starts: the rule of contract I2 on hand-made instants."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.core import FRAME_SECONDS
from model.scheduler import (
    ACTIVE_SECONDS,
    PATIENCE_SECONDS,
    CallTiming,
    patience,
    rows_computed,
    step_start,
)

pytestmark = pytest.mark.unit
NOW, FAST, SLOW = 50.0, 0.005, 0.039


def waiting(since: float, due: float | None = None) -> CallTiming:
    return CallTiming(since, since if due is None else due, since)


def between_frames(last_arrival: float) -> CallTiming:
    return CallTiming(None, last_arrival + FRAME_SECONDS, last_arrival)


# contract: I2
def test_no_frame_starts_no_step() -> None:
    assert step_start(NOW, [], FAST) is None
    assert step_start(NOW, [between_frames(NOW - 0.01)], FAST) is None


# contract: I2
def test_a_lone_call_never_waits() -> None:
    assert step_start(NOW, [waiting(NOW)], FAST) == NOW


# contract: I2
def test_a_step_starts_once_every_active_call_has_a_frame() -> None:
    assert step_start(NOW, [waiting(NOW - 0.001), waiting(NOW)], FAST) == NOW


# contract: I2
def test_a_call_silent_for_160_ms_is_not_waited_for() -> None:
    gone = between_frames(NOW - ACTIVE_SECONDS - 0.001)
    assert step_start(NOW, [waiting(NOW), gone], FAST) == NOW


# contract: I2
def test_the_oldest_frame_waits_ten_milliseconds_for_the_others() -> None:
    calls = [waiting(NOW - 0.004), waiting(NOW - 0.002), between_frames(NOW - 0.07)]
    assert step_start(NOW, calls, FAST) == pytest.approx(NOW - 0.004 + PATIENCE_SECONDS)


# contract: I2
@pytest.mark.parametrize(("p50", "expected"), [(0.0, 0.010), (0.036, 0.008), (0.05, 0.0)])
def test_patience_shrinks_as_steps_grow(p50: float, expected: float) -> None:
    assert patience(p50) == pytest.approx(expected)


# contract: I2
def test_frames_ahead_of_real_time_start_alone_where_nobody_is_due() -> None:
    ahead = CallTiming(NOW - 0.3, NOW + 0.5, NOW - 0.3)
    assert step_start(NOW, [ahead, between_frames(NOW - 0.03)], FAST) == NOW


# contract: I2
def test_frames_ahead_of_real_time_wait_for_a_call_that_is_due_within_a_step() -> None:
    ahead = CallTiming(NOW - 0.3, NOW + 0.5, NOW - 0.3)
    other = between_frames(NOW - 0.05)
    start = step_start(NOW, [ahead, other], SLOW)
    assert start == pytest.approx(NOW + 0.03 + PATIENCE_SECONDS)
    assert start is not None and step_start(start, [ahead, other], SLOW) == start


# contract: I2
def test_frames_ahead_ride_along_with_a_due_one() -> None:
    ahead = CallTiming(NOW - 0.3, NOW + 0.5, NOW - 0.3)
    assert step_start(NOW, [ahead, waiting(NOW)], FAST) == NOW


# contract: I2
def test_a_frame_that_real_time_has_caught_up_with_is_no_longer_ahead() -> None:
    call = CallTiming(NOW - 0.3, NOW + FRAME_SECONDS, NOW - 0.3)
    assert not call.ahead(NOW)
    assert call.ahead(NOW - 0.001)


times = st.floats(-1.0, 0.5)
timings = st.builds(
    CallTiming,
    waiting_since=st.none() | times.filter(lambda t: t <= 0),
    due=times,
    last_arrival=st.none() | times.filter(lambda t: t <= 0),
)


# contract: I2
@given(st.lists(timings, max_size=8), st.floats(0, 0.2))
def test_a_waiting_frame_starts_within_a_frame_of_the_last_due_call(
    calls: list[CallTiming], p50: float
) -> None:
    start = step_start(0.0, calls, p50)
    if start is None:
        assert all(call.waiting_since is None for call in calls)
    else:
        assert start <= FRAME_SECONDS + PATIENCE_SECONDS * (len(calls) + 1)


# contract: I2
def test_rows_are_one_for_a_lone_call_and_all_otherwise() -> None:
    assert rows_computed([3], 4, fixed=False) == range(3, 4)
    assert rows_computed([0, 3], 4, fixed=False) == range(4)
    assert rows_computed([3], 4, fixed=True) == range(4)
