"""The room's clock: the lead's frames, the monotonic clock in their place, and late frames."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.clock import RoomClock

pytestmark = pytest.mark.unit


def ticks(clock: RoomClock, until: float) -> list[float]:
    """Follow the clock's own deadlines; when it made frames."""
    made = []
    while clock.due <= until:
        now = clock.due
        assert clock.tick(now)
        made.append(round(now, 6))
    return made


# contract: H2
def test_without_a_lead_it_makes_a_frame_every_80_ms() -> None:
    clock = RoomClock(0.0)
    assert ticks(clock, 0.4) == [0.0, 0.08, 0.16, 0.24, 0.32, 0.4]
    assert clock.counters.clocked == 6


# contract: H2
def test_a_lead_on_time_is_the_only_clock() -> None:
    clock = RoomClock(0.0)
    clock.lead_changed(0.0, present=True)
    for frame in range(1, 50):
        now = frame * 0.08 + (0.03 if frame % 3 == 0 else 0.0)
        assert not clock.tick(now)
        assert clock.lead_frame(now)
    assert clock.counters.clocked == clock.counters.discarded == 0


# contract: H2
def test_it_takes_over_120_ms_after_the_last_lead_frame() -> None:
    clock = RoomClock(0.0)
    clock.lead_changed(0.0, present=True)
    assert clock.lead_frame(1.0)
    assert not clock.tick(1.119)
    assert ticks(clock, 1.4) == [1.12, 1.2, 1.28, 1.36]


# contract: H2
def test_as_many_late_frames_are_discarded_as_the_clock_made() -> None:
    clock = RoomClock(0.0)
    clock.lead_changed(0.0, present=True)
    clock.lead_frame(1.0)
    made = ticks(clock, 1.4)
    burst = [clock.lead_frame(1.41) for _ in range(6)]
    assert burst == [False] * len(made) + [True, True]
    assert clock.counters.discarded == clock.counters.clocked == len(made)


# contract: H2
def test_discarding_ends_a_second_after_the_lead_is_back() -> None:
    clock = RoomClock(0.0)
    clock.lead_changed(0.0, present=True)
    clock.lead_frame(1.0)
    ticks(clock, 6.0)
    now, used = 6.0, []
    for _ in range(20):
        now += 0.08
        clock.tick(now)
        used.append(clock.lead_frame(now))
    assert used.index(True) <= 13
    assert all(used[used.index(True) :])


# contract: H2
def test_a_new_lead_owes_nothing() -> None:
    clock = RoomClock(0.0)
    ticks(clock, 5.0)
    clock.lead_changed(5.0, present=True)
    assert clock.lead_frame(5.05)


def test_one_frame_for_a_stall_however_long() -> None:
    clock = RoomClock(0.0)
    assert clock.tick(3.0)
    assert not clock.tick(3.0)
    assert clock.due == pytest.approx(3.08)


@given(st.lists(st.floats(0.0, 0.5), min_size=1, max_size=80))
def test_whatever_the_lead_does_frames_keep_the_pace_of_time(gaps: list[float]) -> None:
    """Frames used and clocked are never more than the time that passed and one burst allow."""
    clock = RoomClock(0.0)
    clock.lead_changed(0.0, present=True)
    now, used = 0.0, 0
    for gap in gaps:
        ticks(clock, now + gap)
        now += gap
        used += clock.lead_frame(now)
    assert used + clock.counters.discarded == len(gaps)
    assert clock.counters.discarded <= clock.counters.clocked
    assert clock.counters.clocked <= now / 0.08 + 1
