"""Rings, sum and limiter: what several people sound like in one stream."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from agent.mixer import LIMIT_FROM, Ring, limit, mix
from model import FRAME_SAMPLES

pytestmark = pytest.mark.unit


def constant(level: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.full(FRAME_SAMPLES, level, np.float32)


# contract: H2
def test_one_speaker_alone_is_untouched_even_at_full_scale() -> None:
    loud = np.linspace(-1, 1, FRAME_SAMPLES, dtype=np.float32)
    assert mix([loud, constant(0), constant(0)]) is loud
    last_bit = np.resize(np.float32([1, 0, -1, 0]) / 32768, FRAME_SAMPLES)
    assert mix([loud, last_bit, -last_bit]) is loud, "others' silence came through the codec"
    assert np.array_equal(mix([last_bit]), last_bit)


# contract: H2
def test_the_sum_is_untouched_below_3_db_and_never_clips_above() -> None:
    assert np.allclose(mix([constant(0.3), constant(0.35)]), 0.65)
    three = mix([constant(0.9), constant(0.9), constant(0.9)])
    assert LIMIT_FROM < three.max() <= 1
    assert np.array_equal(mix([constant(-0.9)] * 3), -three)


@given(arrays(np.float32, 32, elements=st.floats(-8, 8, width=32)))
def test_the_limiter_is_monotone_bounded_and_exact_below_its_threshold(samples: object) -> None:
    pcm = np.sort(np.asarray(samples, np.float32))
    limited = limit(pcm)
    assert (np.diff(limited) >= 0).all()
    assert np.abs(limited).max(initial=0) <= 1
    low = np.abs(pcm) <= LIMIT_FROM
    assert np.array_equal(limited[low], pcm[low])


def test_nobody_is_silence() -> None:
    assert not mix([]).any()


# contract: H2
def test_a_short_ring_gives_zeros_and_counts_them() -> None:
    ring = Ring()
    ring.push(constant(0.5)[:1000])
    frame = ring.pop()
    assert (frame[:1000] == 0.5).all() and not frame[1000:].any()
    assert (ring.missing, ring.dropped) == (FRAME_SAMPLES - 1000, 0)


# contract: H2
def test_a_long_ring_drops_the_oldest_down_to_80_ms() -> None:
    ring = Ring()
    for level in (0.1, 0.2, 0.3):
        ring.push(constant(level))
    assert ring.dropped == 2 * FRAME_SAMPLES
    assert np.allclose(ring.pop(), 0.3)
    assert len(ring) == 0
