"""The two audio directions of a WebRTC call: RTP in to samples, frames out at the pace of time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from aiortc import MediaStreamTrack
from av import AudioFrame, AudioResampler

from agent.framing import Samples
from model import SAMPLE_RATE

PACKET_SAMPLES = SAMPLE_RATE // 50
"""20 ms."""
LATE_S = 0.2
"""Later than this the clock starts afresh, rather than sending a burst."""


class AgentTrack(MediaStreamTrack):
    """What the agent says, in 20 ms packets; silence between its responses."""

    kind = "audio"

    def __init__(self) -> None:
        super().__init__()
        self._packets: deque[Samples] = deque()
        self._sent = 0
        self._next: float | None = None

    def say(self, pcm: Samples) -> None:
        self._packets.extend(pcm.reshape(-1, PACKET_SAMPLES))

    def hush(self) -> None:
        """Forget what has not been sent yet."""
        self._packets.clear()

    async def recv(self) -> AudioFrame:
        """The next packet when its time has come."""
        now = asyncio.get_running_loop().time()
        due = now if self._next is None or now - self._next > LATE_S else self._next
        self._next = due + PACKET_SAMPLES / SAMPLE_RATE
        await asyncio.sleep(max(0.0, due - now))
        samples = self._packets.popleft() if self._packets else np.zeros(PACKET_SAMPLES, np.float32)
        linear = np.clip(np.rint(samples * 32768.0), -32768, 32767).astype(np.int16)
        frame = AudioFrame.from_ndarray(linear.reshape(1, -1), format="s16", layout="mono")
        frame.sample_rate = SAMPLE_RATE
        frame.pts = self._sent
        frame.time_base = Fraction(1, SAMPLE_RATE)
        self._sent += PACKET_SAMPLES
        return frame


class HeardTrack:
    """A caller's decoded frames as float32 at 24 kHz mono, resampled statefully."""

    def __init__(self) -> None:
        self._resampler = AudioResampler(format="s16", layout="mono", rate=SAMPLE_RATE)

    def samples(self, frame: AudioFrame) -> Iterator[Samples]:
        frame.pts = None  # gaps in RTP time are the jitter buffer's affair, not the resampler's
        for part in self._resampler.resample(frame):
            yield part.to_ndarray().reshape(-1).astype(np.float32) / np.float32(32768.0)
