"""The audio streams of a room: every heard track as 1920-sample frames into `Hearing`.

It owns the streams and their tasks and knows no people and no session.
"""

from __future__ import annotations

import asyncio

import numpy as np
from livekit import rtc

from agent.hearing import Hearing
from model import FRAME_SAMPLES, FRAME_SECONDS, SAMPLE_RATE, Pcm

FRAME_MS = round(FRAME_SECONDS * 1000)
FULL_SCALE = np.float32(32768)


def samples_of(frame: rtc.AudioFrame) -> Pcm:
    """The frame as float32, copied: its memory belongs to the native side."""
    return np.frombuffer(frame.data, np.int16).astype(np.float32) / FULL_SCALE


class Tracks:
    """One stream and one task for each track that is heard."""

    def __init__(self, hearing: Hearing) -> None:
        self._hearing = hearing
        self._loop = asyncio.get_running_loop()
        self._running: dict[str, tuple[rtc.AudioStream, asyncio.Task[None]]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def start(self, sid: str, track: rtc.Track) -> None:
        if sid in self._running:
            return
        # No capacity: the pump below never waits, and a ring here would drop without counting.
        stream = rtc.AudioStream(
            track, sample_rate=SAMPLE_RATE, num_channels=1, frame_size_ms=FRAME_MS
        )
        self._hearing.add(sid, self._loop.time())
        self._running[sid] = (stream, self._loop.create_task(self._pump(sid, stream)))

    def stop(self, sid: str) -> None:
        """The stream does not end by itself when its publisher goes."""
        if sid not in self._running:
            return
        self._hearing.remove(sid, self._loop.time())
        task = self._loop.create_task(self._close(*self._running.pop(sid)))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def aclose(self) -> None:
        for sid in tuple(self._running):
            self.stop(sid)
        await asyncio.gather(*self._closing, return_exceptions=True)

    async def _pump(self, sid: str, stream: rtc.AudioStream) -> None:
        async for event in stream:
            pcm = samples_of(event.frame)
            if len(pcm) == FRAME_SAMPLES:
                self._hearing.frame(sid, pcm, self._loop.time())

    async def _close(self, stream: rtc.AudioStream, pump: asyncio.Task[None]) -> None:
        pump.cancel()
        await asyncio.gather(pump, return_exceptions=True)
        await stream.aclose()
