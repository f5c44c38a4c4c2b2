"""Asking the demo what it knows, and reading its answer off the sound that came back.

`spoken` is a question in a synthesised voice, `heard_lines` what was said in a recording, line by
line, as a recogniser makes it out among everything that the demo may say.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from model.core import SAMPLE_RATE
from model.demo.corpus import normalise, trim
from model.demo.recognise import ClosedSet
from model.demo.speakers import Speaker, speak
from model.demo.texts import TEXTS, load_texts
from tests.e2e.caller import EAR_RATE, Caller, Sound

CHECKPOINT = Path(__file__).resolve().parents[2] / "model" / "demo" / "checkpoint"
VOICE = Speaker("flite", "slt")
LOUD = 0.01
"""RMS of 20 ms above which somebody speaks; what Opus makes of silence stays below."""
WINDOW = SAMPLE_RATE // 50
PAUSE_WINDOWS = 30
"""Of silence between two lines; pauses within a line are shorter."""
SHORTEST_WINDOWS = 10
FALLBACKS = frozenset(fallback.say for fallback in load_texts(TEXTS).fallbacks)
TIMES = 2
"""A question is put where packets may be late, each time over another alignment of frames."""


@dataclass(frozen=True)
class Question:
    """What is asked, and the one right answer."""

    words: str
    answer: str


def question(words: str) -> Question:
    """A wording that the demo was taught. Raises `KeyError` for any other."""
    return Question(words, dict(load_texts(TEXTS).questions)[words])


QUESTIONS = tuple(
    map(
        question,
        (
            "what is the highest mountain",
            "explain the color of the sky",
            "I need more towels",
        ),
    )
)


@cache
def spoken(words: str, voice: Speaker = VOICE) -> Sound:
    """The words at 24 kHz, in a voice that the demo was trained to hear."""
    return normalise(trim(speak(voice, [words])[0]))


async def until_said(who: Caller, lines: int) -> None:
    """So many lines are complete on the screen, and the last of them to the ear as well."""
    await who.until(f"line {lines}", lambda: len(who.segments) >= lines)
    await who.until("a pause", lambda: who.sound()[-EAR_RATE // 2 :].std() < LOUD)


async def answer_to(put: Callable[[], Awaitable[str]]) -> str:
    """As a person does: once more where the demo says that it did not make the question out.

    `put` asks it and returns what was said to it.
    """
    for time in range(1, TIMES + 1):
        answer = squeeze(await put())
        if answer not in FALLBACKS:
            break
        print(f"not made out at time {time} of {TIMES}: {answer}")
    return answer


async def ask(who: Caller, microphone: Sound) -> str:
    """Put a question by microphone; the answer, as it stands on the screen."""

    async def put() -> str:
        said = len(who.segments)
        await who.say(microphone)
        await until_said(who, said + 1)
        return who.segments[-1].text

    return await answer_to(put)


def squeeze(text: str) -> str:
    return " ".join(text.split())


def made_out(lines: list[str]) -> list[str]:
    """Without the admissions that something was not; none of them claims to be an answer."""
    return [line for line in lines if line not in FALLBACKS]


def heard_lines(sound: Sound) -> list[str]:
    """Every line in a 24 kHz recording of the agent, empty where none was made out."""
    return [_everything().recognise(part) for part in _spoken_parts(sound)]


def _spoken_parts(sound: Sound) -> list[Sound]:
    """A recording cut where nobody speaks."""
    count = len(sound) // WINDOW
    windows = sound[: count * WINDOW].reshape(count, WINDOW)
    loud = np.flatnonzero(np.sqrt(np.mean(np.square(windows), 1)) > LOUD)
    groups = np.split(loud, np.flatnonzero(np.diff(loud) > PAUSE_WINDOWS) + 1)
    return [
        sound[max(0, group[0] - 8) * WINDOW : (group[-1] + 9) * WINDOW]
        for group in groups
        if len(group) >= SHORTEST_WINDOWS
    ]


@cache
def _everything() -> ClosedSet:
    return ClosedSet(load_texts(TEXTS).spoken)
