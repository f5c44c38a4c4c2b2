"""The gate by which `AgentSession` cuts the endless sound of the model into turns."""

from __future__ import annotations

import numpy as np
import pytest
from livekit import rtc
from livekit.plugins import personaplex

pytestmark = pytest.mark.unit


def at_level(dbfs: float) -> rtc.AudioFrame:
    """80 ms of that RMS."""
    samples = np.full(1920, round(32768 * 10 ** (dbfs / 20)), np.int16)
    return rtc.AudioFrame(samples.tobytes(), 24_000, 1, 1920)


@pytest.mark.parametrize(
    ("known", "dbfs", "speaks"),
    [
        ({}, -51, False),
        ({}, -49, True),
        ({"silence_rms": 0.01}, -31, False),
        ({"silence_rms": 0.01}, -29, True),
    ],
)
def test_what_is_three_times_the_known_silence_is_speech(
    known: dict[str, float], dbfs: float, speaks: bool
) -> None:
    """At -50 dBFS unless the user knows of another silence: where contract F3 opens a response."""
    gate = personaplex.DuplexModel(**known).audio_gate()
    assert [gate.update(at_level(dbfs)) for _ in range(3)] == [speaks] * 3
