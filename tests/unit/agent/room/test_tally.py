"""The frames of all calls in rooms, as sums and as Prometheus shows them."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from agent.clock import ClockCounters
from agent.hearing import Hearing, HearingCounters
from agent.metrics import HEARD_KINDS, RING_KINDS, SPOKEN_KINDS, RoomMetrics, render
from agent.speaker import SpeakerCounters
from agent.tally import Counts, RoomTally

pytestmark = pytest.mark.unit
SPEAKER_WAITING = {"unplayed"}
"""Goes down as well as up, so it is no counter."""


class Call:
    def __init__(self, clocked: int, captured: int) -> None:
        self.clocked = clocked
        self.captured = captured

    def counts(self) -> dict[str, Counts]:
        return {"hearing": {"clocked": self.clocked}, "speaker": {"captured": self.captured}}


def test_calls_count_while_they_last_and_after() -> None:
    tally = RoomTally()
    assert tally.totals() == {}
    first = Call(1, 10)
    with tally.counting(first):
        assert tally.totals() == {"hearing": {"clocked": 1}, "speaker": {"captured": 10}}
        with pytest.raises(OSError), tally.counting(Call(2, 20)):
            raise OSError("a call that failed")
        first.clocked = 4
        assert tally.totals() == {"hearing": {"clocked": 6}, "speaker": {"captured": 30}}
    first.clocked = 100
    assert tally.totals() == {"hearing": {"clocked": 6}, "speaker": {"captured": 30}}


def test_every_counter_of_hearing_and_speaker_is_shown() -> None:
    heard = {*asdict(HearingCounters()), *asdict(ClockCounters())}
    assert {*HEARD_KINDS, *RING_KINDS} == heard
    assert {*SPOKEN_KINDS} == set(asdict(SpeakerCounters())) - SPEAKER_WAITING


def test_prometheus_shows_them_from_the_start() -> None:
    tally = RoomTally()
    registry = CollectorRegistry()
    registry.register(RoomMetrics(tally))
    assert 'room_heard_frames_total{kind="discarded"} 0.0' in render(registry).decode()
    with tally.counting(Call(3, 7)):
        shown = render(registry).decode()
    assert 'room_heard_frames_total{kind="clocked"} 3.0' in shown
    assert 'room_spoken_frames_total{kind="captured"} 7.0' in shown


def test_what_rings_lack_is_counted_while_they_run() -> None:
    hearing = Hearing(lambda pcm, clocked: None, 0.0)
    hearing.add("lead", 0.0)
    hearing.add("other", 0.0)
    hearing.frame("lead", np.zeros(1920, np.float32), 0.1)
    assert hearing.totals().ring_missing == 1920
