"""The arithmetic of the room benchmark: parts that add up, and a lost burst that is no figure."""

from __future__ import annotations

from typing import Any, cast

import pytest
from livekit import rtc

from tests.bench.room import Ear, Mouth, parts, plain_ms, summary

pytestmark = pytest.mark.unit
BEGAN, BACK = [10.0, 11.0], [10.4, 11.5]
ONSET = 480
NO_SOURCE = cast(rtc.AudioSource, None)


def events(begun: float) -> list[dict[str, Any]]:
    """What the worker tells of one burst."""
    return [
        {"stage": "heard", "at": begun + 0.15, "onset": ONSET},
        {"stage": "stepped", "at": begun + 0.16, "onset": ONSET},
        {"stage": "captured", "at": begun + 0.17, "onset": ONSET, "queued": 0.1},
    ]


def test_the_parts_of_a_burst_add_up_to_mouth_to_ear() -> None:
    rows = parts(Mouth(NO_SOURCE, BEGAN), Ear(times=BACK), [e for at in BEGAN for e in events(at)])
    for row, whole in zip(rows, (400, 500), strict=True):
        assert row["mouth_to_ear"] == pytest.approx(whole)
        assert sum(row.values()) == pytest.approx(2 * whole)
        assert row["framing"] == pytest.approx((1920 - ONSET) / 24)
        assert row["engine_wait"] == pytest.approx(10)
        assert row["source"] == pytest.approx(10 + 100 + ONSET / 24)
    report = summary(rows, plain_ms(Mouth(NO_SOURCE, BEGAN), Ear(times=[10.2, 11.2])))
    assert report["bursts"] == 2 and report["ratio"] == pytest.approx(450 / 200)


def test_a_lost_burst_is_an_error_that_counts_what_was_found() -> None:
    with pytest.raises(ValueError, match="2 bursts were played"):
        parts(Mouth(NO_SOURCE, BEGAN), Ear(times=BACK), events(BEGAN[0]))
    with pytest.raises(ValueError, match="2 bursts were played, 1 came back"):
        plain_ms(Mouth(NO_SOURCE, BEGAN), Ear(times=BACK[:1]))
