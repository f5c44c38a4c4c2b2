"""What happens to sound on its way: telephone, room, stretching, noise."""

from __future__ import annotations

import numpy as np
import pytest

from model.core import SAMPLE_RATE
from model.demo import sounds

pytestmark = pytest.mark.unit


def tone(hz: float) -> np.ndarray:
    return (0.3 * np.sin(2 * np.pi * hz * np.arange(SAMPLE_RATE) / SAMPLE_RATE)).astype(np.float32)


@pytest.mark.parametrize(("hz", "kept"), [(100, False), (1000, True), (3000, True), (5000, False)])
def test_a_telephone_keeps_its_band(hz: float, kept: bool) -> None:
    before = tone(hz)
    after = sounds.telephone(before)
    assert len(after) == len(before)
    assert (sounds.rms(after) > 0.8 * sounds.rms(before)) is kept


def test_stretching_lowers_the_pitch() -> None:
    slow = sounds.stretch(tone(1000), 1.25)
    loudest = np.abs(np.fft.rfft(slow)).argmax() * SAMPLE_RATE / len(slow)
    assert len(slow) == int(1.25 * SAMPLE_RATE)
    assert abs(loudest - 800) < 2


@pytest.mark.parametrize("make", [sounds.pink, sounds.hum, sounds.keyboard, sounds.music])
def test_backgrounds_have_unit_level_and_follow_the_seed(make) -> None:  # type: ignore[no-untyped-def]
    first, second = (make(np.random.default_rng(5), SAMPLE_RATE) for _ in range(2))
    assert np.array_equal(first, second)
    assert sounds.rms(first) == pytest.approx(1.0, rel=1e-3)


def test_a_room_starts_with_the_sound_itself() -> None:
    click = np.zeros(SAMPLE_RATE, dtype=np.float32)
    click[100] = 1.0
    wet = sounds.room(click, np.random.default_rng(1), 0.3)
    assert wet[100] == pytest.approx(1.0, abs=1e-3)
    assert np.abs(wet[:100]).max() < 1e-6
    assert np.abs(wet[300:]).max() > 0


def test_babble_is_several_voices_at_once() -> None:
    voice = tone(300)
    mixed = sounds.babble(np.random.default_rng(2), 2 * SAMPLE_RATE, lambda: voice)
    assert len(mixed) == 2 * SAMPLE_RATE
    assert sounds.rms(mixed) == pytest.approx(1.0, rel=1e-3)
