"""Several tracks into one stream of frames: who leads, who is mixed, who follows."""

from __future__ import annotations

import numpy as np
import pytest

from agent.hearing import Hearing
from model import FRAME_SAMPLES, Pcm

pytestmark = pytest.mark.unit


class Session:
    """What a session would be given."""

    def __init__(self) -> None:
        self.frames: list[tuple[float, bool]] = []

    def push(self, pcm: Pcm, clocked: bool) -> None:
        assert pcm.shape == (FRAME_SAMPLES,)
        self.frames.append((round(float(pcm[0]), 3), clocked))


def frame(level: float) -> Pcm:
    return np.full(FRAME_SAMPLES, level, np.float32)


def room() -> tuple[Hearing, Session]:
    session = Session()
    return Hearing(session.push, 0.0), session


# contract: H2
def test_the_lead_clocks_and_the_others_are_added() -> None:
    hearing, session = room()
    hearing.add("lead", 0.0)
    hearing.add("other", 0.0)
    hearing.frame("other", frame(0.2), 0.01)
    hearing.frame("lead", frame(0.1), 0.02)
    hearing.frame("lead", frame(0.1), 0.10)
    assert session.frames == [(0.3, False), (0.1, False)]
    assert hearing.totals().ring_missing == FRAME_SAMPLES


# contract: H2
def test_without_lead_frames_the_others_are_still_heard() -> None:
    hearing, session = room()
    hearing.add("lead", 0.0)
    hearing.add("other", 0.0)
    hearing.frame("lead", frame(0.1), 0.0)
    hearing.frame("other", frame(0.2), 0.05)
    hearing.tick(0.11)
    hearing.tick(0.12)
    assert session.frames == [(0.1, False), (0.2, True)]
    assert hearing.clock.counters.clocked == 1


# contract: H4
def test_the_next_track_leads_when_the_lead_goes() -> None:
    hearing, session = room()
    for name in ("one", "two", "three"):
        hearing.add(name, 0.0)
    hearing.remove("one", 1.0)
    assert hearing.lead == "two"
    hearing.frame("two", frame(0.1), 1.02)
    assert session.frames == [(0.1, False)]
    hearing.remove("two", 2.0)
    hearing.remove("three", 2.0)
    hearing.tick(2.2)
    assert hearing.lead is None
    assert session.frames[-1] == (0.0, True)


def test_frames_of_unknown_tracks_change_nothing() -> None:
    hearing, session = room()
    hearing.frame("stranger", frame(0.5), 0.0)
    hearing.remove("stranger", 0.0)
    assert session.frames == []
    assert hearing.totals().frames_in == 0


# contract: C6
def test_every_frame_is_accounted_for() -> None:
    hearing, session = room()
    hearing.add("lead", 0.0)
    hearing.add("other", 0.0)
    rng = np.random.default_rng(5)
    now = 0.0
    for _ in range(400):
        now += float(rng.exponential(0.08))
        while hearing.clock.due <= now:
            hearing.tick(hearing.clock.due)
        hearing.frame("lead" if rng.random() < 0.6 else "other", frame(0.1), now)
    totals, clock = hearing.totals(), hearing.clock.counters
    assert totals.frames_in == totals.lead_frames + totals.mixed == 400
    assert totals.made == totals.lead_frames - clock.discarded + clock.clocked
    assert totals.made == len(session.frames)
    assert clock.clocked == sum(clocked for _, clocked in session.frames)
