"""Where a console call's sound comes from and goes to: sound card or WAV files, frame by frame.

A frame is 1920 samples at 24 kHz. Everything runs on one event loop; the sound card's own threads
only pass frames over.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from agent.command import CommandError
from agent.wav import WavFile, frames_of, read_wav, with_tail
from model import FRAME_SAMPLES, FRAME_SECONDS, SAMPLE_RATE, Pcm

SPEAKER_FRAMES = 4
"""Frames that may wait for the speaker; the oldest goes, so that a hiccup does not last."""


class Outlet(Protocol):
    """Where the agent is heard."""

    def play(self, pcm: Pcm) -> None: ...


class WavSource:
    """A file, then silence for `tail_s`; in real time where somebody listens to the answer."""

    def __init__(self, path: Path, tail_s: float, paced: bool) -> None:
        self._frames = frames_of(with_tail(read_wav(path), tail_s))
        self._paced = paced

    async def frames(self) -> AsyncIterator[Pcm]:
        loop = asyncio.get_running_loop()
        due = loop.time()
        for frame in self._frames:
            if self._paced:
                due += FRAME_SECONDS
                await asyncio.sleep(due - loop.time())
            yield frame


class WavOutlet:
    """A file that holds every frame of the agent."""

    def __init__(self, path: Path) -> None:
        self._file = WavFile(path)

    def play(self, pcm: Pcm) -> None:
        self._file.write(pcm)

    def close(self) -> None:
        self._file.close()


class SoundCard:
    """The default microphone and speaker; either may stay unused.

    Opened as it is made, for which no event loop need run; sound flows while it is entered. Raises
    `CommandError` where there is no such device.
    """

    def __init__(self, microphone: bool, speaker: bool) -> None:
        self._loop: asyncio.AbstractEventLoop
        self._heard: asyncio.Queue[Pcm] = asyncio.Queue()
        self._waiting: deque[Pcm] = deque(maxlen=SPEAKER_FRAMES)
        self.in_use = microphone or speaker
        self._streams: list[Any] = []
        if self.in_use:
            self._open(microphone, speaker)

    def _open(self, microphone: bool, speaker: bool) -> None:
        sounddevice = _sounddevice()
        options: dict[str, Any] = {
            "samplerate": SAMPLE_RATE,
            "channels": 1,
            "blocksize": FRAME_SAMPLES,
            "dtype": "float32",
        }
        try:
            if microphone:
                self._streams.append(sounddevice.InputStream(callback=self._take, **options))
            if speaker:
                self._streams.append(sounddevice.OutputStream(callback=self._give, **options))
        except sounddevice.PortAudioError as error:
            raise CommandError(
                f"no sound device that works ({error}); use --input and --output with WAV files"
            ) from None

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        for stream in self._streams:
            stream.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.close()

    async def frames(self) -> AsyncIterator[Pcm]:
        while True:
            yield await self._heard.get()

    def play(self, pcm: Pcm) -> None:
        self._waiting.append(pcm)

    def close(self) -> None:
        for stream in self._streams:
            stream.close()

    def _take(self, samples: Pcm, *_: object) -> None:
        """In PortAudio's thread; its buffer is used again after this returns."""
        self._loop.call_soon_threadsafe(self._heard.put_nowait, samples[:, 0].copy())

    def _give(self, samples: Pcm, *_: object) -> None:
        samples[:, 0] = self._waiting.popleft() if self._waiting else 0.0


def _sounddevice() -> Any:
    try:
        import sounddevice
    except ImportError:
        needed = f"{sys.executable} -m pip install 'personaplex-livekit[console]'"
        raise CommandError(f"the sound card needs another package: {needed}") from None
    except OSError:
        raise CommandError(
            "the sound card needs PortAudio: apt-get install libportaudio2"
        ) from None
    return sounddevice
