"""The input: one WAV as whole 80 ms frames of 24 kHz mono, with a tail of zeros."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from agent.driver.options import FRAME_SAMPLES, SAMPLE_RATE


class InputError(Exception):
    """The input file cannot be used; one line says why."""


@dataclass(frozen=True)
class InputAudio:
    """Whole frames, `[F, 1920]` float32, and the digest of the file that they came from."""

    path: str
    sha256: str
    tail_s: float
    frames: NDArray[np.float32]

    def payload(self, index: int) -> str:
        """Frame `index` as base64 `pcm_f32le`."""
        return base64.b64encode(self.frames[index].astype("<f4").tobytes()).decode("ascii")

    def first(self, count: int) -> InputAudio:
        """At most `count` frames; the file is never looped."""
        return InputAudio(self.path, self.sha256, self.tail_s, self.frames[:count])


def read_input(path: Path, tail_s: float, expected_sha256: str | None = None) -> InputAudio:
    """Read, mix down, resample and frame `path`. Raises `InputError`."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); give a WAV") from error
    digest = hashlib.sha256(raw).hexdigest()
    if expected_sha256 is not None and digest != expected_sha256.lower():
        raise InputError(f"{path}: its SHA-256 is {digest}, not the expected one")
    samples = _decode(path)
    tail = np.zeros(round(tail_s * SAMPLE_RATE), dtype=np.float32)
    samples = np.concatenate([samples, tail])
    padding = -len(samples) % FRAME_SAMPLES
    framed = np.pad(samples, (0, padding)).reshape(-1, FRAME_SAMPLES)
    return InputAudio(str(path), digest, tail_s, framed)


def _decode(path: Path) -> NDArray[np.float32]:
    try:
        samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    except soundfile.SoundFileError as error:
        raise InputError(f"{path}: no audio file that can be read; give a WAV") from error
    if not len(samples):
        raise InputError(f"{path}: has no samples; give a WAV with sound in it")
    if not np.isfinite(samples).all():
        raise InputError(f"{path}: has samples that are no numbers; give a WAV without them")
    mono = samples.mean(axis=1)
    resampled = mono if rate == SAMPLE_RATE else soxr.resample(mono, rate, SAMPLE_RATE)
    return np.asarray(resampled, dtype=np.float32)
