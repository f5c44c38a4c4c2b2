"""Recordings of any kind become samples that the codec can take, or one clear line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from agent.command import CommandError
from agent.wav import read_wav

pytestmark = pytest.mark.unit


def written(path: Path, samples: list[float]) -> Path:
    soundfile.write(path, np.array(samples, np.float32), 24_000, subtype="FLOAT")
    return path


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_samples_that_are_no_numbers_are_refused(tmp_path: Path, bad: float) -> None:
    with pytest.raises(CommandError, match=r"in\.wav: holds samples that are no numbers"):
        read_wav(written(tmp_path / "in.wav", [0.0, bad, 0.5]))


def test_samples_beyond_full_scale_are_clipped(tmp_path: Path) -> None:
    samples = read_wav(written(tmp_path / "in.wav", [0.25, 3e38, -7.0]))
    assert samples.tolist() == [0.25, 1.0, -1.0]


@pytest.mark.parametrize(("count", "rate"), [(0, 24_000), (1, 96_000), (3, 192_000)])
def test_a_recording_too_short_for_a_sample_is_refused(
    tmp_path: Path, count: int, rate: int
) -> None:
    soundfile.write(tmp_path / "in.wav", np.zeros(count, np.float32), rate)
    with pytest.raises(CommandError, match=r"in\.wav: has no samples at 24 kHz"):
        read_wav(tmp_path / "in.wav")
