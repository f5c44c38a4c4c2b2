"""The simulated people of the evaluation wait, ask, interrupt and measure rightly."""

from __future__ import annotations

import numpy as np
import pytest

from model.core import FRAME_SAMPLES
from model.demo.people import Person, Turn, looped, nobody, silence

pytestmark = pytest.mark.unit

LOUD = np.full(FRAME_SAMPLES, 0.1, dtype=np.float32)
QUIET = np.zeros(FRAME_SAMPLES, dtype=np.float32)
QUESTION = np.full(10 * FRAME_SAMPLES, 0.1, dtype=np.float32)


class Agent:
    """Greets at frame 4 for 10 frames; answers `wait` frames after speech for `length` frames."""

    def __init__(self, wait: int = 6, length: int = 12, stops: int = 3) -> None:
        self.wait, self.length, self.stops = wait, length, stops
        self.begin = 4
        self.frame = -1
        self.talking = 0
        self.silent_since: int | None = None

    def step(self, pcm: np.ndarray) -> tuple[str, np.ndarray]:
        self.frame += 1
        if np.abs(pcm).max() > 0.05:
            self.talking += 1
            if self.talking > self.stops and self.begin <= self.frame < self.begin + self.length:
                self.begin = -1000
        elif self.talking:
            self.talking = 0
            self.begin = self.frame + self.wait
        speaking = self.begin <= self.frame < self.begin + self.length
        return ("word " if self.frame == self.begin else ""), LOUD if speaking else QUIET


def call(person: Person, agent: Agent, limit: int = 2000) -> Person:
    while not person.done and person.frame < limit:
        person.hear(*agent.step(person.speak()))
    assert person.done
    return person


def person(turns: int, interrupting: bool = False) -> Person:
    asked = [Turn(QUESTION, ("word",)) for _ in range(turns)]
    return Person(asked, silence, np.random.default_rng(1), interrupting)


def test_a_person_waits_for_the_greeting_and_for_each_answer() -> None:
    made = call(person(4), Agent())
    assert made.greeting == "word "
    assert made.greeted == pytest.approx(5 * 0.08)
    assert [o.said for o in made.outcomes] == ["word "] * 4
    assert not any(o.early or o.interrupting for o in made.outcomes)


@pytest.mark.parametrize("wait", [3, 8])
def test_latency_counts_from_the_end_of_speech(wait: int) -> None:
    made = call(person(5), Agent(wait=wait))
    latencies = [o.latency for o in made.outcomes]
    assert all(x is not None and wait * 0.08 < x <= (wait + 2) * 0.08 + 1e-6 for x in latencies)


def test_a_person_gives_up_on_an_agent_that_never_answers() -> None:
    made = call(person(3), Agent(wait=100_000))
    assert [o.latency for o in made.outcomes] == [None] * 3


@pytest.mark.parametrize("stops", [2, 7])
def test_an_interruption_measures_how_long_the_agent_goes_on(stops: int) -> None:
    made = call(person(6, interrupting=True), Agent(length=40, stops=stops))
    cut = [o.stopped for o in made.outcomes if o.interrupting]
    assert len(cut) == 5
    assert [o.cut for o in made.outcomes] == [True] * 5 + [False]
    assert all(x is not None and abs(x - stops * 0.08) <= 0.081 for x in cut)


def test_speaking_into_the_question_is_early() -> None:
    made = person(1)
    for _ in range(200):
        pcm = made.speak()
        asking = bool(made.outcomes) and np.abs(pcm).max() > 0
        made.hear("", LOUD if asking or made.frame < 5 else QUIET)
    assert made.outcomes[0].early


def test_the_answers_sound_can_be_cut_out() -> None:
    made = call(person(2), Agent(length=12))
    sound = made.answer_sound(made.outcomes[0])
    assert len(sound) == (12 + 4) * FRAME_SAMPLES
    assert int((np.abs(sound) > 0).sum()) == 12 * FRAME_SAMPLES


def test_what_is_said_after_the_last_answer_belongs_to_no_question() -> None:
    made = call(person(2), Agent())
    heard = len(made.heard)
    made.speak()
    made.hear("are you still there", LOUD)
    assert made.outcomes[-1].said == "word " and len(made.heard) == heard


def test_nobody_stays_as_long_as_asked() -> None:
    made = call(nobody(100, silence, np.random.default_rng(1)), Agent())
    assert 100 <= made.frame < 200
    assert np.abs(np.stack([looped(LOUD, 0.02)(i) for i in range(3)])).max() == pytest.approx(0.02)
