"""Loud people in one room: what the limiter leaves of one alone, and of three together."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.e2e.caller import EAR_RATE
from tests.e2e.sounds import strength

FULL_SCALE = 32767 / 32768
TONES, ROBOT = (410, 730, 1190), 1700
"""Hz; no overtone, sum or difference that a bent sum may have is one of the others."""
ALONE, TOGETHER = 0.95, 0.6
LIMITED = 0.503
"""The amplitude that tanh above -3 dBFS leaves to each of three tones of 0.6."""


def check_alone(part: np.ndarray[Any, Any]) -> None:
    """Far above the limiter's threshold, and as loud and as pure as it was said."""
    first, third = (strength(part, factor * TONES[0], EAR_RATE) for factor in (1, 3))
    print(f"alone: {first:.4f} of {ALONE}, third overtone {third:.4f}")
    assert abs(first - ALONE) < 0.01 * ALONE
    assert third < 0.004


def check_together(parts: list[np.ndarray[Any, Any]]) -> None:
    """Every tone as the limiter leaves it; a plain sum would stand at full scale for long."""
    together = [part for part in parts if strength(part, TONES[2], EAR_RATE) > 0.4]
    found = np.array(
        [[strength(part, hz, EAR_RATE) for hz in (*TONES, ROBOT)] for part in together]
    )
    flat = [np.mean(np.abs(part) >= FULL_SCALE) for part in together]
    peaks = [np.abs(part).max() for part in together]
    print(f"{len(together)} parts in which all speak: {np.median(found, axis=0).round(4)}")
    print(f"peaks {min(peaks):.4f} to {max(peaks):.4f}, at full scale {max(flat):.2%}")
    assert np.allclose(np.median(found, axis=0)[:3], LIMITED, atol=0.02)
    assert found[:, 3].max() < 0.005
    assert np.median(peaks) > 0.98, "they never spoke as loud together as a limiter is for"
    # A plain sum clips in 19% of them; where a packet was late Opus may overshoot for some.
    assert max(flat) < 2e-3
