"""Every figure against a timeline that was computed by hand."""

from __future__ import annotations

import pytest

from agent.driver.metrics import (
    Arrival,
    Continuity,
    client_stream_rtf,
    continuity,
    packet_intervals_ms,
    playout_stall_ms,
    stream_timing,
    summarise,
)
from agent.driver.pacing import Grid, SendTimes

pytestmark = pytest.mark.unit

HALF_SECOND = 12_000


# contract: K6
def test_interval_median_p99_maximum_and_first_argmax() -> None:
    arrivals = [Arrival(at, 1920) for at in (1.0, 1.1, 1.4, 1.5, 1.8)]
    intervals = packet_intervals_ms(arrivals)
    assert intervals == pytest.approx([100, 300, 100, 300])
    summary = summarise([100.0, 300.0, 100.0, 300.0])
    assert (summary.count, summary.median, summary.max) == (4, 200.0, 300.0)
    assert summary.argmax_index == 1
    assert summarise([0.0, 100.0]).p99 == pytest.approx(99.0)


# contract: K6
def test_client_rtf_runs_from_the_first_send_to_the_last_audio() -> None:
    arrivals = [Arrival(10.3, HALF_SECOND), Arrival(11.5, HALF_SECOND)]
    assert client_stream_rtf(arrivals, 10.0) == pytest.approx(1.5)


# contract: K6
def test_without_output_nothing_is_zero() -> None:
    assert client_stream_rtf([], 10.0) is None
    assert continuity([]) == Continuity(None, None, None)
    assert playout_stall_ms([]) is None
    timing = stream_timing([], [1.0])
    assert (timing.server_stream_rtf, timing.lag_ms, timing.lag_drift_ms) == (None, [], None)
    assert summarise([]).median is None


# contract: K6
def test_continuity_never_rebases() -> None:
    hundred_ms = 2_400
    arrivals = [Arrival(0.0, hundred_ms), Arrival(0.1, hundred_ms), Arrival(0.5, hundred_ms)]
    assert continuity(arrivals) == Continuity(pytest.approx(0.3), 1, False)
    behind = [Arrival(0.0, 1920), Arrival(0.16, 1920), Arrival(0.24, 1920)]
    assert continuity(behind) == Continuity(pytest.approx(0.08), 2, True)


# contract: K6
def test_lag_and_slope_of_a_stream_that_falls_behind() -> None:
    sends = [0.08 * index for index in range(20)]
    slow = [Arrival(0.08 + 0.1 * (index + 1), 1920) for index in range(20)]
    timing = stream_timing(slow, sends)
    assert timing.server_stream_rtf == pytest.approx(0.1 / 0.08)
    assert timing.lag_ms[0] == pytest.approx(100.0)
    assert timing.lag_ms[-1] == pytest.approx(480.0)
    window = 15 * 0.08 * 1e3
    assert timing.lag_drift_ms == pytest.approx(0.25 * window)


# contract: K6
def test_a_packet_of_several_frames_counts_its_last_one() -> None:
    timing = stream_timing([Arrival(1.0, 5 * 1920)], [0.08 * index for index in range(5)])
    assert timing.lag_ms == pytest.approx([(1.0 - 0.32 - 0.08) * 1e3])


# contract: K6
def test_playout_stalls_after_a_start_buffer() -> None:
    frame = 1920
    arrivals = [Arrival(0.0, frame), Arrival(0.3, frame), Arrival(0.38, frame)]
    assert playout_stall_ms(arrivals) == pytest.approx(100.0)
    assert playout_stall_ms(arrivals, start_index=1) == pytest.approx(0.0)
    assert playout_stall_ms(arrivals[:1], start_index=1) == pytest.approx(0.0)


# contract: K4
def test_lateness_counts_from_the_first_grid_and_is_clipped() -> None:
    late = SendTimes(0, planned_at=1.0, started_at=1.25, completed_at=1.3)
    early = SendTimes(0, planned_at=1.0, started_at=0.9, completed_at=1.3)
    assert late.lateness_ms == pytest.approx(250.0)
    assert early.lateness_ms == 0.0


# contract: K4
def test_a_stalled_send_restarts_the_grid_a_frame_later() -> None:
    grid = Grid(start=10.0)
    grid.completed(0, at=10.5)
    assert grid.slot(1) == pytest.approx(10.58)
    assert grid.slot(2) == pytest.approx(10.66)
    assert grid.planned(1) == pytest.approx(10.08)


# contract: K4
def test_overshoot_of_the_clock_does_not_add_up() -> None:
    grid = Grid(start=0.0)
    for index in range(100):
        grid.completed(index, at=grid.slot(index) + 0.003)
    assert grid.slot(100) == pytest.approx(8.0)
