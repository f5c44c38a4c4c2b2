"""The audio streams of a room: every heard track as 1920-sample frames into `Hearing`.

It owns the streams and their tasks and knows no people and no session.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import numpy as np
from livekit import rtc

from agent.hearing import Hearing
from model import FRAME_SAMPLES, FRAME_SECONDS, SAMPLE_RATE, Pcm

FRAME_MS = round(FRAME_SECONDS * 1000)
FULL_SCALE = np.float32(32768)


def samples_of(frame: rtc.AudioFrame) -> Pcm:
    """The frame as float32, copied: its memory belongs to the native side."""
    return np.frombuffer(frame.data, np.int16).astype(np.float32) / FULL_SCALE


@dataclass(frozen=True, slots=True)
class _Running:
    track: rtc.Track
    stream: rtc.AudioStream
    pump: asyncio.Task[None]


class Tracks:
    """One stream and one task for each track that is heard."""

    def __init__(self, hearing: Hearing) -> None:
        self._hearing = hearing
        self._loop = asyncio.get_running_loop()
        self._running: dict[str, _Running] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def start(self, sid: str, track: rtc.Track) -> None:
        if sid in self._running:
            return
        # No capacity: the pump below never waits, and a ring here would drop without counting.
        stream = rtc.AudioStream(
            track, sample_rate=SAMPLE_RATE, num_channels=1, frame_size_ms=FRAME_MS
        )
        self._hearing.add(sid, self._loop.time())
        pump = self._loop.create_task(self._pump(sid, stream))
        self._running[sid] = _Running(track, stream, pump)

    def stop(self, sid: str) -> None:
        """The stream does not end by itself when its publisher goes."""
        if sid not in self._running:
            return
        self._hearing.remove(sid, self._loop.time())
        task = self._loop.create_task(self._close(self._running.pop(sid)))
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

    async def _close(self, running: _Running) -> None:
        running.pump.cancel()
        await asyncio.gather(running.pump, return_exceptions=True)
        await running.stream.aclose()

    async def media(self) -> list[dict[str, Any]]:
        """What WebRTC made up, put in and took out of each track, in samples, and its delay."""
        return [
            {"track": sid, **inbound}
            for sid, running in tuple(self._running.items())
            for inbound in _inbound(await running.track.get_stats())
        ]


def _inbound(stats: list[Any]) -> list[dict[str, Any]]:
    inbound = [entry.inbound_rtp.inbound for entry in stats if entry.HasField("inbound_rtp")]
    return [
        {
            "samples": entry.total_samples_received,
            "concealed_samples": entry.concealed_samples,
            "silent_concealed_samples": entry.silent_concealed_samples,
            "inserted_samples": entry.inserted_samples_for_deceleration,
            "removed_samples": entry.removed_samples_for_acceleration,
            "jitter_buffer_delay_s": entry.jitter_buffer_delay,
            "jitter_buffer_emitted": entry.jitter_buffer_emitted_count,
        }
        for entry in inbound
    ]
