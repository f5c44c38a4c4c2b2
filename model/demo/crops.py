"""Short pieces of sound for training the codec."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from model.core import FRAME_SAMPLES

from .corpus import AgentLine, Corpus, Utterance
from .listening import STEP, Listening
from .sounds import Rng
from .speakers import Samples

LABELS = 4
"""Phones a frame, one every 20 ms."""
FIRST_VOICE = 0.65
GENERAL = 0.2
NOBODY = 0.08
SLACK = 40
"""How far speech may stick out of a crop at either end, in steps of 10 ms."""


def agent_crop(corpus: Corpus, rng: Rng, frames: int) -> Samples:
    """`[frames * 1920]` of a line in its silence, cut on frame boundaries."""
    line = agent_line(corpus, rng)
    samples = corpus.agent(line)
    lead = int(rng.integers(0, frames // 2 + 1)) * FRAME_SAMPLES
    size = frames * FRAME_SAMPLES
    padded = np.pad(samples, (lead, size))
    last = (len(samples) + lead) // FRAME_SAMPLES
    start = int(rng.integers(0, max(1, last - frames // 2))) * FRAME_SAMPLES
    return padded[start : start + size]


def agent_line(corpus: Corpus, rng: Rng) -> AgentLine:
    """A line of either voice, seldom one of the general sentences."""
    voice = 0 if rng.random() < FIRST_VOICE else 1
    general = rng.random() < GENERAL
    lines = [a for a in corpus.lines if a.voice == voice and a.general == general]
    return lines[rng.integers(len(lines))]


def person_crop(
    listening: Listening, utterances: list[Utterance], rng: Rng, frames: int
) -> tuple[Samples, NDArray[np.int64]]:
    """Someone in some background, or nobody: samples and phones `[frames, LABELS]`."""
    size = frames * FRAME_SAMPLES
    kind = listening.background_kind(rng)
    samples = listening.background(rng, kind, size)
    phones = np.zeros(size // STEP, dtype=np.int64)
    if rng.random() > NOBODY:
        heard = listening.person(rng, utterances[rng.integers(len(utterances))])
        _place(rng, heard.samples, np.array(heard.phones, dtype=np.int64), samples, phones)
    steps = FRAME_SAMPLES // STEP // LABELS
    return samples, phones[steps // 2 :: steps].reshape(frames, LABELS)


def _place(
    rng: Rng,
    said: Samples,
    labels: NDArray[np.int64],
    samples: Samples,
    phones: NDArray[np.int64],
) -> None:
    """Add the speech at a random place, on the 10 ms grid, cut off where it sticks out."""
    count, length = len(phones), len(labels)
    low, high = min(0, count - length) - SLACK, max(0, count - length) + SLACK
    offset = int(rng.integers(low, high))
    first, last = max(0, offset), min(count, offset + length)
    if first >= last:
        return
    phones[first:last] = labels[first - offset : last - offset]
    samples[first * STEP : last * STEP] += said[(first - offset) * STEP : (last - offset) * STEP]
