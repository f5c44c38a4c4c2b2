"""Several people in one stream: a ring for each of them, their sum, and a gentle limit.

Pure sums over samples; it knows nothing of rooms, tracks or time.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from model import FRAME_SAMPLES, Pcm

TARGET_SAMPLES = FRAME_SAMPLES
"""A ring that ran over goes back to this much: 80 ms."""
MOST_SAMPLES = 2 * FRAME_SAMPLES
"""A ring never holds more: 160 ms."""
LIMIT_FROM = np.float32(10 ** (-3 / 20))
"""Full scale less 3 dB; the limiter leaves everything below alone."""
CODEC_SILENCE = np.float32(2 / 32768)
"""What Opus makes of an open microphone's silence stays within: its last bits."""


class Ring:
    """One person's samples between two clocks: theirs coming in, the lead's going out."""

    def __init__(self) -> None:
        self._samples: Pcm = np.zeros(0, np.float32)
        self.dropped = 0
        """Samples that were too many."""
        self.missing = 0
        """Samples that had not come and went out as zeros."""

    def __len__(self) -> int:
        return len(self._samples)

    def push(self, pcm: Pcm) -> None:
        """Append; where that is too long, the oldest go, down to the target."""
        self._samples = np.concatenate([self._samples, pcm])
        if len(self._samples) > MOST_SAMPLES:
            self.dropped += len(self._samples) - TARGET_SAMPLES
            self._samples = self._samples[-TARGET_SAMPLES:]

    def pop(self) -> Pcm:
        """One frame, `[1920]`, the end of it zeros where the ring ran short."""
        taken, self._samples = self._samples[:FRAME_SAMPLES], self._samples[FRAME_SAMPLES:]
        short = FRAME_SAMPLES - len(taken)
        self.missing += short
        return np.pad(taken, (0, short))


def limit(pcm: Pcm) -> Pcm:
    """Below -3 dBFS the same samples; above, bent by tanh so that they stay within 1."""
    level = np.abs(pcm)
    if level.max(initial=0) <= LIMIT_FROM:
        return pcm
    room = np.float32(1) - LIMIT_FROM
    bent = np.copysign(LIMIT_FROM + room * np.tanh((level - LIMIT_FROM) / room), pcm)
    return np.where(level > LIMIT_FROM, bent, pcm).astype(np.float32)


def mix(frames: Iterable[Pcm]) -> Pcm:
    """Everybody's frame as one; somebody who speaks alone passes untouched."""
    present = [frame for frame in frames if frame.any()]
    if not present:
        return np.zeros(FRAME_SAMPLES, np.float32)
    speaking = [frame for frame in present if np.abs(frame).max() > CODEC_SILENCE]
    if len(speaking) == 1:
        return speaking[0]
    return limit(np.sum(present, axis=0, dtype=np.float32))
