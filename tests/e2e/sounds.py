"""Sounds whose samples can be identified, and how to find them again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import soxr

from tests.e2e.caller import EAR_RATE, RATE, Sound

CHIRP_FROM, CHIRP_HZ_PER_SECOND = 300.0, 50.0
AUDIBLE_PEAK = 0.05


def tone(hz: float, seconds: float, level: float = 0.3) -> Sound:
    """A sine at 48 kHz."""
    t = np.arange(int(seconds * RATE)) / RATE
    return (level * np.sin(2 * np.pi * hz * t)).astype(np.float32)


def pause(seconds: float) -> Sound:
    """Silence at 48 kHz."""
    return np.zeros(int(seconds * RATE), np.float32)


def at_microphone(sound: Sound) -> Sound:
    """A 24 kHz sound at a microphone's 48 kHz."""
    return soxr.resample(sound, EAR_RATE, RATE)


def chirp(seconds: float, level: float = 0.5) -> Sound:
    """A linear chirp at 48 kHz: its frequency tells the time."""
    t = np.arange(int(seconds * RATE)) / RATE
    phase = 2 * np.pi * (CHIRP_FROM * t + CHIRP_HZ_PER_SECOND * t * t / 2)
    return (level * np.sin(phase)).astype(np.float32)


def peak_hz(frame: Sound, rate: int) -> float:
    """The strongest frequency of a frame, interpolated between bins; NaN where it is quiet."""
    if np.abs(frame).max() < AUDIBLE_PEAK:
        return float("nan")
    spectrum = np.abs(np.fft.rfft(frame * np.hanning(len(frame))))
    k = int(np.clip(spectrum[1:-1].argmax() + 1, 1, len(spectrum) - 2))
    left, mid, right = np.log(spectrum[k - 1 : k + 2] + 1e-12)
    return float((k + 0.5 * (left - right) / (left - 2 * mid + right)) * rate / len(frame))


def chirp_times(sound: Sound, rate: int) -> Sound:
    """For each 80 ms of the sound, the second of the chirp in its middle; NaN where it is quiet."""
    size = rate * 80 // 1000
    frames = sound[: len(sound) // size * size].reshape(-1, size)
    hz = np.array([peak_hz(frame, rate) for frame in frames])
    return (hz - CHIRP_FROM) / CHIRP_HZ_PER_SECOND


def last_recording(folder: Path) -> dict[str, np.ndarray[Any, Any]]:
    """The input of the call that the echo worker recorded last."""
    with np.load(sorted(folder.glob("*.npz"))[-1]) as file:
        return dict(file)


def strength(sound: Sound, hz: float, rate: int) -> float:
    """The amplitude of one frequency within a sound."""
    t = np.arange(len(sound)) / rate
    return float(2 * np.abs(np.mean(sound * np.exp(-2j * np.pi * hz * t))))
