"""What `offline` is given: recordings or user codes, as frames. Knows no model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from agent.command import CommandError
from agent.wav import frames_of, read_wav, with_tail
from model import AGENT_CODEBOOKS, FRAME_SAMPLES


@dataclass(frozen=True)
class Source:
    """One input: frames of sound `[F, 1920]` or of user codes `[F, 8]`, and its length."""

    path: Path
    frames: NDArray[np.float32] | NDArray[np.int64]
    samples: int


def read_sound(path: Path, tail_s: float) -> Source:
    """A recording and `tail_s` seconds of silence. Raises `CommandError`."""
    samples = with_tail(read_wav(path), tail_s)
    return Source(path, frames_of(samples), len(samples))


def read_codes(path: Path) -> Source:
    """User codes `[8, T]`, one column a frame. Raises `CommandError`."""
    try:
        codes = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError, BadZipFile, MemoryError) as error:
        raise CommandError(f"--codes {path} is no .npy file ({error}); save it by numpy") from error
    if not isinstance(codes, np.ndarray) or codes.ndim != 2 or codes.dtype.kind not in "iu":
        raise CommandError(f"--codes {path} must hold one array of integers [8, T]")
    if codes.shape[0] != AGENT_CODEBOOKS or not codes.shape[1]:
        raise CommandError(f"--codes {path} is {list(codes.shape)}; it must be [8, T]")
    return Source(path, codes.T.astype(np.int64), codes.shape[1] * FRAME_SAMPLES)
