"""Samples of any chunking in, whole frames out under reserve, commit and rollback.

Holds float32 at 24 kHz only. It gives the identity `(epoch, seq)` to a frame when the frame is
reserved and takes it back when the submission failed; it knows nothing of who submits.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from agent.turns import level_dbfs
from model import FRAME_SAMPLES, Pcm

Samples = NDArray[np.float32]
"""Mono float32 at 24 kHz, any length."""


@dataclass(frozen=True, slots=True)
class InputFrame:
    """One whole frame, with what the session needs to know of it once it was stepped."""

    pcm: Pcm
    level: float
    accepted_at: float
    clocked: bool = False
    """Made by a clock, not heard."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """A frame on its way into the engine under an identity that is not yet committed."""

    epoch: int
    seq: int
    frame: InputFrame


@dataclass(slots=True)
class Framer:
    """The input of one call that the engine has not taken yet."""

    epoch: int = 0
    seq: int = 0
    """The last committed sequence number of this epoch."""
    waiting: deque[InputFrame] = field(default_factory=deque)
    partial: Samples = field(default_factory=lambda: np.zeros(0, np.float32))

    def frames_after(self, samples: int) -> int:
        """How many whole frames would wait once `samples` more had come."""
        return len(self.waiting) + (self.partial.size + samples) // FRAME_SAMPLES

    def append(self, samples: Samples, now: float) -> int:
        """Take samples of any number; the frames that they completed."""
        buffer = np.concatenate((self.partial, samples)) if self.partial.size else samples
        whole = buffer.size // FRAME_SAMPLES
        for index in range(whole):
            start = index * FRAME_SAMPLES
            # Copied: the caller may reuse its buffer while the engine still reads the frame.
            self.push(buffer[start : start + FRAME_SAMPLES].copy(), now)
        self.partial = buffer[whole * FRAME_SAMPLES :].copy()
        return whole

    def push(self, pcm: Pcm, now: float, *, clocked: bool = False) -> None:
        """Take one whole frame."""
        self.waiting.append(InputFrame(pcm, level_dbfs(pcm), now, clocked))

    def pad(self, now: float) -> bool:
        """Complete a waiting partial frame with zeros; false where there is none."""
        if not self.partial.size:
            return False
        self.append(np.zeros(FRAME_SAMPLES - self.partial.size, np.float32), now)
        return True

    def reserve(self) -> Reservation | None:
        """Take the oldest frame out under the next identity."""
        if not self.waiting:
            return None
        return Reservation(self.epoch, self.seq + 1, self.waiting.popleft())

    def commit(self, reservation: Reservation) -> None:
        """The engine took it: the cursor moves."""
        assert (reservation.epoch, reservation.seq) == (self.epoch, self.seq + 1)
        self.seq = reservation.seq

    def rollback(self, reservation: Reservation) -> None:
        """The engine refused it: the same bytes stand in front again, the cursor where it was."""
        self.waiting.appendleft(reservation.frame)

    def restart(self, epoch: int) -> None:
        """A new epoch counts from 1; samples that were never submitted belong to it."""
        self.epoch = epoch
        self.seq = 0

    def drop_oldest(self) -> None:
        self.waiting.popleft()

    def clear(self) -> int:
        """Forget everything that waits; the number of whole frames lost."""
        lost = len(self.waiting)
        self.waiting.clear()
        self.partial = np.zeros(0, np.float32)
        return lost
