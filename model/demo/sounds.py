"""What happens to a voice on its way to the agent: room, telephone, level, background.

Pure functions of samples and a numpy generator; 24 kHz mono throughout.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from model.core import SAMPLE_RATE

from .speakers import Samples

Rng = np.random.Generator
MU = 255.0


def rms(samples: Samples) -> float:
    return float(np.sqrt(np.mean(np.square(samples, dtype=np.float64)) + 1e-16))


def stretch(samples: Samples, factor: float) -> Samples:
    """Play `factor` times slower: pitch and formants fall with the speed."""
    count = int(len(samples) * factor)
    places = np.arange(count) / factor
    return np.interp(places, np.arange(len(samples)), samples).astype(np.float32)


def telephone(samples: Samples) -> Samples:
    """300 to 3400 Hz at 8 kHz through mu-law, back at 24 kHz."""
    narrow = _shape(samples, lambda hz: ((hz > 300) & (hz < 3400)).astype(float))
    peak = np.clip(narrow[::3], -1, 1)
    law = np.sign(peak) * np.log1p(MU * np.abs(peak)) / np.log1p(MU)
    coded = np.round(law * 127) / 127
    linear = np.sign(coded) * np.expm1(np.abs(coded) * np.log1p(MU)) / MU
    wide = np.zeros(len(samples), dtype=np.float32)
    wide[::3] = 3 * linear
    return _shape(wide, lambda hz: (hz < 3600).astype(float))


def tilt(samples: Samples, decibel: float) -> Samples:
    """Change the spectrum evenly by `decibel` from 100 Hz to 10 kHz."""
    return _shape(
        samples, lambda hz: 10 ** (decibel / 40 * np.log10(np.clip(hz, 100, 10_000) / 1000))
    )


def room(samples: Samples, rng: Rng, seconds: float) -> Samples:
    """A room whose reverberation decays by 60 dB within `seconds`."""
    count = int(seconds * SAMPLE_RATE)
    tail = rng.standard_normal(count) * np.exp(-6.9 * np.arange(count) / count)
    tail[: SAMPLE_RATE // 200] = 0
    tail *= rng.uniform(0.2, 0.7) / np.sqrt(np.sum(tail**2) + 1e-9)
    tail[0] = 1.0
    size = len(samples) + count
    wet = np.fft.irfft(np.fft.rfft(samples, size) * np.fft.rfft(tail, size), size)
    return wet[: len(samples)].astype(np.float32)


def white(rng: Rng, count: int) -> Samples:
    return rng.standard_normal(count).astype(np.float32)


def pink(rng: Rng, count: int) -> Samples:
    shaped = _shape(white(rng, count), lambda hz: 1 / np.sqrt(np.maximum(hz, 20)))
    return _unit(shaped)


def hum(rng: Rng, count: int) -> Samples:
    """Mains hum with harmonics."""
    base = rng.choice([50.0, 60.0])
    seconds = np.arange(count) / SAMPLE_RATE
    parts = [
        rng.uniform(0.1, 1) / k * np.sin(2 * np.pi * base * k * seconds + rng.uniform(0, 6))
        for k in range(1, 8)
    ]
    return _unit(np.sum(parts, 0).astype(np.float32))


def keyboard(rng: Rng, count: int) -> Samples:
    """Short dull clicks, a few a second."""
    out = np.zeros(count, dtype=np.float32)
    place = 0
    while True:
        place += int(rng.exponential(0.18) * SAMPLE_RATE) + 600
        if place + 1200 >= count:
            return _unit(out)
        decay = np.exp(-np.arange(1200) / rng.uniform(60, 250))
        out[place : place + 1200] += (rng.standard_normal(1200) * decay).astype(np.float32)


def music(rng: Rng, count: int) -> Samples:
    """Chords of plucked tones over a bass, in some key and tempo."""
    out = np.zeros(count, dtype=np.float32)
    key, beat = rng.uniform(110, 220), int(rng.uniform(0.2, 0.6) * SAMPLE_RATE)
    scale = np.array([0, 2, 4, 5, 7, 9, 11, 12, 14, 16])
    for start in range(0, count, beat):
        length = min(3 * beat, count - start)
        seconds = np.arange(length) / SAMPLE_RATE
        fade = np.exp(-seconds * rng.uniform(1, 6)) * np.minimum(1, seconds * 100)
        for note in rng.choice(scale, rng.integers(1, 4)):
            hz = key * 2 ** (note / 12)
            for k in range(1, 6):
                out[start : start + length] += fade * np.sin(2 * np.pi * hz * k * seconds) / k**1.5
    return _unit(out)


def babble(rng: Rng, count: int, voices: Callable[[], Samples]) -> Samples:
    """Five to eight people talking at once, each a chain of what `voices` returns."""
    out = np.zeros(count, dtype=np.float32)
    for _ in range(rng.integers(5, 9)):
        place = -int(rng.integers(0, SAMPLE_RATE))
        while place < count:
            said = voices()
            first, last = max(0, place), min(count, place + len(said))
            if first < last:
                out[first:last] += said[first - place : last - place]
            place += len(said) + int(rng.integers(0, SAMPLE_RATE // 4))
    return _unit(out)


def _shape(
    samples: Samples, curve: Callable[[NDArray[np.float64]], NDArray[np.float64]]
) -> Samples:
    spectrum = np.fft.rfft(samples)
    hz = np.fft.rfftfreq(len(samples), 1 / SAMPLE_RATE).astype(np.float64)
    return np.fft.irfft(spectrum * curve(hz), len(samples)).astype(np.float32)


def _unit(samples: Samples) -> Samples:
    return (samples / np.float32(rms(samples))).astype(np.float32)
