"""Simulated people for the evaluation: they wait, ask, interrupt, and note what they hear.

Each keeps its own clock of frames and knows nothing of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from model.core import FRAME_SAMPLES, FRAME_SECONDS, SAMPLE_RATE

from . import sounds
from .sounds import Rng
from .speakers import Samples

LOUD = 0.004
"""RMS of a 10 ms window above which something is heard."""
QUIET_FRAMES = 8
"""Of silence before a person takes the turn."""
PATIENCE_FRAMES = 45
"""How long a person waits for an answer."""
LOST_PATIENCE_FRAMES = 150
"""After which a person talks to an agent that never pauses."""
WINDOW = SAMPLE_RATE // 100

Background = Callable[[int], Samples]


@dataclass(frozen=True)
class Turn:
    """What is said, and every answer that would be right."""

    samples: Samples
    right: tuple[str, ...]
    label: str = ""


@dataclass
class Outcome:
    """What came of a turn; times in seconds, None where it did not happen."""

    turn: Turn
    said: str = ""
    during: str = ""
    """What the agent said while the person had the turn."""
    latency: float | None = None
    """From the end of the speech to the first sound."""
    stopped: float | None = None
    """From the onset of an interruption to the agent's last sound."""
    interrupting: bool = False
    cut: bool = False
    """The person interrupted the answer, of which `said` is the beginning."""
    early: bool = False
    """The agent spoke up before the person had ended."""
    sounded: tuple[int, int] | None = None
    """First and last frame of the answer's sound."""


@dataclass
class Person:
    """Takes turns with the agent. `interrupting`: begins while the agent is speaking."""

    turns: Sequence[Turn]
    background: Background
    rng: Rng
    interrupting: bool = False
    due: str = ""
    """How the agent ought to greet."""
    greeting: str = ""
    greeted: float | None = None
    outcomes: list[Outcome] = field(default_factory=list)
    heard: list[Samples] = field(default_factory=list)
    frame: int = 0
    done: bool = False
    """Everything is said and answered, or will not be: the person has hung up."""
    _left: Samples = field(default_factory=lambda: np.zeros(0, dtype=np.float32))
    _onset: int = 0
    _end: float = 0.0
    _quiet: int = 0
    _loud: int = 0
    _answered: bool = False
    _asked: int = 0
    _grace: int = 0
    _first: int = 0

    def speak(self) -> Samples:
        """The next frame of the person's sound, `[1920]`."""
        if not len(self._left) and len(self.outcomes) < len(self.turns) and self._ready():
            self._begin()
        said = self._left[:FRAME_SAMPLES]
        self._left = self._left[FRAME_SAMPLES:]
        frame = self.background(self.frame).copy()
        frame[: len(said)] += said
        self.frame += 1
        return frame

    def _ready(self) -> bool:
        """Would the person speak now, if there were something to say?"""
        if self._waited(LOST_PATIENCE_FRAMES):
            return True
        if self.interrupting and self.outcomes:
            return self._loud >= self._grace or self._waited(PATIENCE_FRAMES)
        return self._quiet >= QUIET_FRAMES and (self._answered or self._waited(PATIENCE_FRAMES))

    def _waited(self, frames: int) -> bool:
        return self.frame - self._asked > frames

    def _begin(self) -> None:
        turn = self.turns[len(self.outcomes)]
        self._first = self._first or self.frame
        offset = int(self.rng.integers(0, FRAME_SAMPLES))
        self._left = np.pad(turn.samples, (offset, 0))
        self._onset = self.frame
        self._end = self.frame * FRAME_SECONDS + len(self._left) / SAMPLE_RATE
        self._asked = self.frame + len(self._left) // FRAME_SAMPLES
        interrupts = self.interrupting and self._quiet == 0
        if interrupts and self.outcomes:
            self.outcomes[-1].cut = True
        self.outcomes.append(Outcome(turn, interrupting=interrupts))
        self._answered = False
        self._loud = 0
        self._grace = int(self.rng.integers(5, 14))

    def hear(self, text: str, pcm: Samples) -> None:
        """The agent's side of the frame just spoken; nothing counts once the person is done."""
        if self.done:
            return
        self.heard.append(pcm)
        windows = np.sqrt(np.mean(np.square(pcm.reshape(-1, WINDOW)), 1)) > LOUD
        loud = bool(windows.any())
        self._quiet = 0 if loud or text else self._quiet + 1
        now = self.frame * FRAME_SECONDS
        if not self.outcomes:
            self.greeting += text
            if loud and self.greeted is None:
                self.greeted = now
            self._answered |= loud
            return
        if loud:
            last = (int(np.flatnonzero(windows)[-1]) + 1) / 100
            self._note(now, now - FRAME_SECONDS + last)
        if now > self._end:
            self.outcomes[-1].said += text
        else:
            self.outcomes[-1].during += text
        self.done = self._satisfied()

    def _note(self, now: float, last: float) -> None:
        """Something was heard, up to `last`."""
        outcome = self.outcomes[-1]
        onset = self._onset * FRAME_SECONDS
        if now > self._end:
            self._answered = True
            self._loud += 1
            index = len(self.heard) - 1
            outcome.sounded = (outcome.sounded[0] if outcome.sounded else index, index)
            if outcome.latency is None:
                outcome.latency = now - self._end
        elif outcome.interrupting:
            outcome.stopped = max(outcome.stopped or 0.0, last - onset)
        elif now - onset > 0.4:
            outcome.early = True

    def _satisfied(self) -> bool:
        """Has the last answer come to its end, or was it waited for in vain?"""
        if len(self.outcomes) < len(self.turns) or len(self._left):
            return False
        waited = self._answered or self._waited(PATIENCE_FRAMES)
        return self._waited(LOST_PATIENCE_FRAMES) or (self._quiet >= QUIET_FRAMES and waited)

    def answer_sound(self, outcome: Outcome) -> Samples:
        """What was heard in answer, with a little silence around it."""
        if outcome.sounded is None:
            return np.zeros(0, dtype=np.float32)
        first, last = outcome.sounded
        return np.concatenate(self.heard[max(0, first - 2) : last + 3])

    def greeting_sound(self) -> Samples:
        """What was heard before the person first spoke."""
        return np.concatenate(self.heard[: self._first or len(self.heard)])


def nobody(frames: int, background: Background, rng: Rng) -> Person:
    """Somebody who never speaks and stays for `frames`."""
    silent = Turn(np.zeros(frames * FRAME_SAMPLES, dtype=np.float32), ())
    return Person([silent], background, rng)


def silence(frame: int) -> Samples:
    return np.zeros(FRAME_SAMPLES, dtype=np.float32)


@dataclass(frozen=True)
class Looped:
    """A track over and over, `[N]` samples; the rest of its last frame is left out."""

    track: Samples

    def __call__(self, index: int) -> Samples:
        start = index % (len(self.track) // FRAME_SAMPLES) * FRAME_SAMPLES
        return self.track[start : start + FRAME_SAMPLES]


def looped(track: Samples, level: float) -> Looped:
    """A track at an RMS of `level`, over and over."""
    return Looped(track * np.float32(level / sounds.rms(track)))
