"""The room benchmark runs: every burst is found at every place where it is timed."""

from __future__ import annotations

import pytest

from tests.bench.room import measure

pytestmark = pytest.mark.e2e
BURSTS = 3


def test_every_burst_is_found() -> None:
    # It raises where a burst is lost or told twice, through the worker or through the plain echo.
    assert measure(BURSTS)["bursts"] == BURSTS
