"""What is played to the demo in a call, and what it should say to it."""

from __future__ import annotations

import numpy as np

from model.core import FRAME_SAMPLES
from model.demo.texts import TEXTS, load_texts
from tests.e2e.asking import Question, heard_lines, spoken
from tests.e2e.caller import Sound

GREETING = load_texts(TEXTS).personas[0].greeting
STILL_THERE = load_texts(TEXTS).silence_prompt
GREETING_FRAMES = 60
ANSWER_FRAMES = 75
"""From the end of a question to the end of a response to it."""
MID_ANSWER_FRAMES = 17
"""After a question, until the answer is being said."""


def silence(frames: int) -> Sound:
    return np.zeros(frames * FRAME_SAMPLES, np.float32)


def whole(sound: Sound) -> Sound:
    """Up to the end of its last frame."""
    return np.concatenate([sound, np.zeros(-sound.size % FRAME_SAMPLES, np.float32)])


def asked(question: Question, before: int = GREETING_FRAMES, after: int = ANSWER_FRAMES) -> Sound:
    """The question between so many frames of silence: those of the greeting and of the answer."""
    return np.concatenate([silence(before), whole(spoken(question.words)), silence(after)])


def lines_in(pcm16: bytes) -> list[str]:
    """The lines in the sound of a response, or of several."""
    return heard_lines(np.frombuffer(pcm16, "<i2").astype(np.float32) / 32768)
