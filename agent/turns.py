"""Where the agent starts and stops speaking, from energy and text; when a hold may end.

Counts frames and knows no time, no transport and no response: the session asks it once a frame.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from model import Pcm

PAD_TOKENS = frozenset({0, 3})
"""Text ids that carry no text: the end of a pad and the pad."""
OPEN_DBFS = -50.0
FLOOR_DBFS = -120.0

SPOKEN_DBFS = -45.0
SPOKEN_FRAMES = 3
PAUSED_FRAMES = 5
HOLD_LIMIT_FRAMES = 150
"""Twelve seconds."""


def level_dbfs(pcm: Pcm) -> float:
    """RMS of a frame in dB against full scale, never below `FLOOR_DBFS`."""
    power = float(np.dot(pcm, pcm)) / max(1, pcm.size)
    return FLOOR_DBFS if power <= 1e-12 else 10.0 * math.log10(power)


@dataclass(frozen=True, slots=True)
class TurnThresholds:
    """What counts as the agent's speech, and how much quiet ends it."""

    open_dbfs: float = OPEN_DBFS
    open_frames: int = 2
    done_frames: int = 10


DEFAULT_TURNS = TurnThresholds()


@dataclass(slots=True)
class SpeechDetector:
    """The agent's own speech: opens at text or the second loud frame, done after ten quiet ones."""

    turns: TurnThresholds = DEFAULT_TURNS
    speaking: bool = False
    loud_run: int = 0
    quiet_run: int = 0

    def step(self, level: float, text_token: int) -> bool:
        """Take one output frame; true while the agent speaks."""
        text = text_token not in PAD_TOKENS
        loud = level > self.turns.open_dbfs
        self.loud_run = self.loud_run + 1 if loud else 0
        self.quiet_run = 0 if text or loud else self.quiet_run + 1
        if not self.speaking:
            self.speaking = text or self.loud_run >= self.turns.open_frames
        elif self.quiet_run >= self.turns.done_frames:
            self.speaking = False
        return self.speaking

    def reset(self) -> None:
        self.speaking = False
        self.loud_run = self.quiet_run = 0


@dataclass(slots=True)
class Hold:
    """A soft cancel in force: over when the person has spoken and paused, or after 12 s."""

    spoken: int = 0
    paused: int = 0
    frames: int = 0

    def step(self, input_level: float) -> bool:
        """Take one stepped input frame; true when the hold is over."""
        self.frames += 1
        if input_level > SPOKEN_DBFS:
            self.spoken += 1
            self.paused = 0
        else:
            self.paused += 1
        over = self.spoken >= SPOKEN_FRAMES and self.paused >= PAUSED_FRAMES
        return over or self.frames >= HOLD_LIMIT_FRAMES
