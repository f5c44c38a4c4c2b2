"""The agent's voice on its way out: a short queue before the track's audio source.

Capturing waits while the source is full, so it happens here and never where frames are made.
What follows a frame (its text) goes out after it. It knows no room and no session.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from livekit import rtc

from model import FRAME_SAMPLES, SAMPLE_RATE, Pcm

log = logging.getLogger(__name__)
QUEUE_FRAMES = 4
"""Frames that may wait here, 320 ms, beyond the 200 ms of the source."""


class Source(Protocol):
    """What is used of `rtc.AudioSource`."""

    async def capture_frame(self, frame: rtc.AudioFrame) -> None: ...

    def clear_queue(self) -> None: ...


@dataclass(slots=True)
class SpeakerCounters:
    """What became of the frames."""

    captured: int = 0
    dropped: int = 0
    """Frames that came while the queue was full."""
    cleared: int = 0
    """Frames that a cancel took out of the queue."""
    failed: int = 0
    """Frames that the source did not take."""
    unplayed: int = 0
    """Frames that still wait; at the end of a call, what the end cut off."""


@dataclass(slots=True)
class _Item:
    pcm: Pcm | None
    then: Callable[[], None]


class Speaker:
    """Plays frames in order; `run` is its one task."""

    def __init__(self, source: Source) -> None:
        self.counters = SpeakerCounters()
        self._source = source
        self._queue: asyncio.Queue[_Item] = asyncio.Queue()

    def play(self, pcm: Pcm, then: Callable[[], None]) -> None:
        """Queue one frame, `[1920]`; its text is never lost, even where the sound is."""
        if self.counters.unplayed >= QUEUE_FRAMES:
            self.counters.dropped += 1
            self._queue.put_nowait(_Item(None, then))
        else:
            self.counters.unplayed += 1
            self._queue.put_nowait(_Item(pcm, then))

    def then(self, do: Callable[[], None]) -> None:
        """Do something once everything queued so far has gone out."""
        self._queue.put_nowait(_Item(None, do))

    def clear(self) -> None:
        """Fall silent at once: drop what waits here and in the source."""
        waiting = [self._queue.get_nowait() for _ in range(self._queue.qsize())]
        for item in waiting:
            self.counters.cleared += item.pcm is not None
            self.counters.unplayed -= item.pcm is not None
            self._queue.put_nowait(_Item(None, item.then))
        self._source.clear_queue()

    async def run(self) -> None:
        while True:
            item = await self._queue.get()
            if item.pcm is not None:
                self.counters.unplayed -= 1
                await self._capture(item.pcm)
            item.then()

    async def _capture(self, pcm: Pcm) -> None:
        samples = (np.clip(pcm, -1.0, 1.0) * 32767.0).round().astype(np.int16)
        frame = rtc.AudioFrame(samples.tobytes(), SAMPLE_RATE, 1, FRAME_SAMPLES)
        try:
            await self._source.capture_frame(frame)
        except asyncio.CancelledError:
            self.counters.failed += 1
            raise
        except Exception as error:  # rtc raises no narrower class
            self.counters.failed += 1
            log.debug("a frame was not captured: %s", error)
        else:
            self.counters.captured += 1
