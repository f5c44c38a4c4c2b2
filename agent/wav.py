"""WAV files as the model's audio: any rate and channels in, 24 kHz mono out. Knows no session."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from agent.command import CommandError, amount
from model import FRAME_SAMPLES, SAMPLE_RATE

TAIL_S = 8.0
"""Time for the longest answer of the demo, and for a model that thinks first."""
LONGEST_TAIL_S = 3600.0
"""It is held in memory, and each second of it is computed."""


def add_tail(parser: argparse.ArgumentParser) -> None:
    """The flag of every command that plays a recording and waits for the answer."""
    parser.add_argument(
        "--tail-s",
        type=_tail,
        default=TAIL_S,
        metavar="SECONDS",
        help=f"silence after --input, in which the answer comes (default {TAIL_S:g},"
        f" at most {LONGEST_TAIL_S:g})",
    )


def _tail(text: str) -> float:
    seconds = amount(text)
    if seconds > LONGEST_TAIL_S:
        raise argparse.ArgumentTypeError(f"{text} is more than {LONGEST_TAIL_S:g} seconds")
    return seconds


def with_tail(samples: NDArray[np.float32], seconds: float) -> NDArray[np.float32]:
    """The samples and so many seconds of silence."""
    return np.pad(samples, (0, round(seconds * SAMPLE_RATE)))


def read_wav(path: Path) -> NDArray[np.float32]:
    """All samples of `path`, mixed down and resampled, `[S]`. Raises `CommandError`."""
    try:
        path.open("rb").close()  # soundfile does not say why it could not
        samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    except OSError as error:
        raise CommandError(f"{path}: cannot be read ({error.strerror}); give a WAV") from None
    except soundfile.SoundFileError:
        raise CommandError(f"{path}: is no audio file that can be read; give a WAV") from None
    if not np.isfinite(samples).all():
        raise CommandError(f"{path}: holds samples that are no numbers; write it anew")
    # Finite, but far beyond full scale, would overflow inside the codec.
    mono = np.clip(samples, -1.0, 1.0).mean(axis=1)
    resampled = mono if rate == SAMPLE_RATE else soxr.resample(mono, rate, SAMPLE_RATE)
    if not len(resampled):
        raise CommandError(f"{path}: has no samples at 24 kHz; give a WAV with sound in it")
    return np.asarray(resampled, dtype=np.float32)


def frames_of(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """Whole frames, `[F, 1920]`; the last one padded with zeros."""
    return np.pad(samples, (0, -len(samples) % FRAME_SAMPLES)).reshape(-1, FRAME_SAMPLES)


class WavFile:
    """A 24 kHz mono WAV that is written as audio comes. Every method raises `CommandError`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._explained():
            self._file = soundfile.SoundFile(
                path, "w", samplerate=SAMPLE_RATE, channels=1, subtype="PCM_16", format="WAV"
            )

    def write(self, samples: NDArray[np.float32]) -> None:
        """Any number of samples, `[S]`."""
        with self._explained():
            self._file.write(samples)

    def close(self) -> None:
        """Leave a whole file, also where not all samples had room in it."""
        with self._explained():
            self._file.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (soundfile.SoundFileError, OSError):
            raise CommandError(
                f"{self._path}: cannot be written; name a WAV in a folder of yours, with room on"
                " its disk"
            ) from None
