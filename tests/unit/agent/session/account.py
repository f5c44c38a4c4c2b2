"""The input of one call by the letter of the contract: what waits, and where the cursor is.

It is told what the session under test is given, before the session is, and compares every frame
that the session hands to the engine: its identity and its bytes. It shares no code with the
session.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from agent.policy import Policy
from model import FRAME_SAMPLES, Pcm

NOTHING = np.zeros(0, np.float32)
COUNTED = (
    "accepted",
    "clocked",
    "submitted",
    "rolled_back",
    "refused",
    "dropped_overflow",
    "dropped_cancel",
)
"""What it counts, under the names of `agent.counters.Counters`."""


class Account:
    """What was given, what is still to be taken, and what was not as it should be."""

    def __init__(self, policy: Policy) -> None:
        self.epoch = 0
        self.cursor = 0
        """The last sequence number of this epoch that the engine took."""
        self.waiting: deque[Pcm] = deque()
        self.part = NOTHING
        self.in_flight = 0
        """Frames that the engine took and has not stepped."""
        self.given: dict[tuple[int, int], Pcm] = {}
        """What the engine took, by identity."""
        self.refused_last = False
        """The engine refused the frame that it was offered last."""
        self.uncommitted = False
        self.counts = dict.fromkeys(COUNTED, 0)
        self.parts_cleared = 0
        self.parts_padded = 0
        self.wrong: list[str] = []
        """Offers to the engine that were not the one that was due."""
        self._policy = policy

    @property
    def pending(self) -> int:
        return len(self.waiting) + self.in_flight

    def has_room(self, samples: int) -> bool:
        """C4: an append is refused whole where more frames would wait than may."""
        completed = (self.part.size + samples) // FRAME_SAMPLES
        return self.pending + completed <= self._policy.queue_frames

    # What comes in.

    def append(self, samples: Pcm) -> None:
        """C2: whole frames in order, whatever the chunking."""
        if not self.has_room(samples.size):
            self.counts["refused"] += 1
            return
        self.uncommitted = True
        joined = np.concatenate((self.part, samples))
        whole = joined.size // FRAME_SAMPLES * FRAME_SAMPLES
        for frame in joined[:whole].reshape(-1, FRAME_SAMPLES):
            self.push(frame)
        self.part = joined[whole:]

    def push(self, frame: Pcm) -> None:
        self.waiting.append(frame)
        self.counts["accepted"] += 1

    def overflow(self) -> None:
        """C4: a room drops the oldest."""
        if self._policy.drop_oldest and len(self.waiting) > self._policy.queue_frames:
            self.waiting.popleft()
            self.counts["dropped_overflow"] += 1

    def commit(self, final: bool) -> None:
        """C5: a final commit pads; F5: an empty one is refused."""
        if self.uncommitted and final:
            self.pad()
        self.uncommitted = False

    def pad(self) -> bool:
        """Whether there was part of a frame."""
        if not self.part.size:
            return False
        self.push(np.concatenate((self.part, np.zeros(FRAME_SAMPLES - self.part.size, np.float32))))
        self.part = NOTHING
        self.parts_padded += 1
        return True

    def silence(self) -> None:
        """G2: a waiting part of a frame goes first."""
        if not self.pad():
            self.push(np.zeros(FRAME_SAMPLES, np.float32))
            self.counts["clocked"] += 1

    def clear(self) -> None:
        """What the engine has not taken is forgotten; the cursor stays."""
        self.counts["dropped_cancel"] += len(self.waiting)
        self.parts_cleared += self.part.size > 0
        self.waiting.clear()
        self.part = NOTHING
        self.uncommitted = False

    def restart(self) -> None:
        """E1: the next epoch counts from 1, and begins with what the engine has not taken."""
        self.counts["dropped_cancel"] += self.in_flight
        self.in_flight = 0
        self.epoch += 1
        self.cursor = 0

    # What goes on.

    def offered(self, epoch: int, seq: int, pcm: Pcm, *, taken: bool) -> None:
        """C3: the oldest frame, under the next identity; one that is refused stays in front."""
        due = self.waiting[0] if self.waiting else NOTHING
        if (epoch, seq) != (self.epoch, self.cursor + 1) or not np.array_equal(pcm, due):
            self.wrong.append(f"{(epoch, seq)} was offered after {(self.epoch, self.cursor)}")
        self.refused_last = not taken
        if not taken:
            self.counts["rolled_back"] += 1
        elif self.waiting:
            self.given[epoch, seq] = self.waiting.popleft()
            self.cursor += 1
            self.in_flight += 1
            self.counts["submitted"] += 1

    def stepped(self, frames: int) -> None:
        self.in_flight -= frames

    @property
    def held_back(self) -> bool:
        """C2: a frame waits although the engine would take it."""
        full = self.in_flight >= self._policy.in_flight_frames
        return bool(self.waiting) and not full and not self.refused_last
