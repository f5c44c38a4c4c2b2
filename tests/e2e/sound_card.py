"""Microphone and loudspeaker of a WebRTC caller, which share nothing with the agent's own code."""

from __future__ import annotations

import asyncio
from fractions import Fraction

import numpy as np
import soxr
from aiortc import MediaStreamTrack
from av import AudioFrame

from tests.e2e.caller import CHUNK, EAR_RATE, RATE, Sound
from tests.e2e.realtime import pcm16
from tests.e2e.sounds import at_microphone


class Microphone(MediaStreamTrack):
    """20 ms of 48 kHz at a time, as its own clock has them: what is to be said, else silence."""

    kind = "audio"

    def __init__(self) -> None:
        super().__init__()
        self._to_say = np.zeros(0, np.float32)
        self._taken = 0
        self._started: float | None = None

    def say(self, sound: Sound) -> None:
        """Speak 24 kHz samples next."""
        self._to_say = np.concatenate([self._to_say, at_microphone(sound)])

    async def recv(self) -> AudioFrame:
        now = asyncio.get_running_loop().time()
        if self._started is None:
            self._started = now
        await asyncio.sleep(self._started + self._taken / RATE - now)
        said, self._to_say = np.split(self._to_say, [CHUNK])
        frame = AudioFrame(format="s16", layout="mono", samples=CHUNK)
        frame.planes[0].update(pcm16(np.pad(said, (0, CHUNK - said.size))))
        frame.sample_rate, frame.time_base = RATE, Fraction(1, RATE)
        frame.pts = self._taken
        self._taken += CHUNK
        return frame


class Loudspeaker:
    """It keeps the frames that it is given: 48 kHz, one channel or two."""

    def __init__(self) -> None:
        self._frames: list[Sound] = []

    def play(self, frame: AudioFrame) -> None:
        assert (frame.sample_rate, frame.format.name) == (RATE, "s16")
        samples = frame.to_ndarray().reshape(-1, frame.layout.nb_channels)
        self._frames.append((samples.mean(axis=1) / 32768).astype(np.float32))

    def sound(self) -> Sound:
        """All that was played, at 24 kHz."""
        if not self._frames:
            return np.zeros(0, np.float32)
        return soxr.resample(np.concatenate(self._frames), RATE, EAR_RATE)
