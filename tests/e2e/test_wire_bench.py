"""The benchmark of the websocket runs and counts every frame; its figures are not judged here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.wire import CALLS, measure

pytestmark = pytest.mark.e2e


async def test_every_frame_of_every_call_is_timed(tiny_checkpoint: Path) -> None:
    report = await measure(tiny_checkpoint, frames=5)
    assert (report["calls"], report["frames"]) == (CALLS, 5 * CALLS)
    assert 0 < report["websocket_added_ms_p50"] <= report["websocket_added_ms_p99"]
    assert report["longest_loop_stall_ms_8_cold_opens"] >= 0
