"""What is refused amid audio loses none of it, not even what a resampler holds."""

from __future__ import annotations

import base64
from random import Random
from typing import Any

import numpy as np
import pytest

from tests.conftest import SEED
from tests.fakes.engine import FakeEngine
from tests.fakes.server import serving

pytestmark = pytest.mark.unit

HALF = 500
"""Samples at 8 kHz: less than a frame, so that no response is open yet."""
REFUSED: dict[str, dict[str, Any]] = {
    "input_audio_buffer_empty": {"type": "input_audio_buffer.commit"},
    "response_not_active": {"type": "response.cancel"},
    "response_not_active, by signal": {"type": "turn.signal", "event": "response.cancel"},
    "bad_audio": {"type": "input_audio_buffer.append", "audio": "***", "sample_rate_hz": 8000},
}


async def heard(refused: dict[str, Any] | None, code: str = "") -> np.ndarray:
    """All that the engine hears of two halves, with this between them."""
    rng = Random(SEED)
    engine = FakeEngine()
    async with serving(engine) as server, server.connect("/v1/duplex?model=m") as client:
        for last in (False, True):
            sound = np.array([rng.randrange(-9000, 9000) for _ in range(HALF)], "<i2").tobytes()
            audio = base64.b64encode(sound).decode()
            await client.send("input_audio_buffer.append", audio=audio, sample_rate_hz=8000)
            await client.send("input_audio_buffer.commit", final=last)
            if refused is not None and not last:
                await client.socket.send_json(refused)
                assert (await client.until("error"))["error"]["code"] == code
        await client.until("response.output_audio.delta")
        await client.until("response.output_audio.delta")
    return np.concatenate(engine.heard)


@pytest.mark.parametrize("name", REFUSED)
async def test_a_refusal_loses_nothing(name: str) -> None:  # contract: C1 C2 F5
    whole = await heard(None)
    assert np.abs(whole).max() > 0.1
    assert np.array_equal(await heard(REFUSED[name], name.split(",")[0]), whole)


@pytest.mark.parametrize("samples", [1, 80, 160])
async def test_a_commit_of_what_a_resampler_holds_whole_is_none_of_nothing(
    samples: int,
) -> None:  # contract: F5
    """A packet of a telephone is shorter than the filter, which gives nothing of it yet."""
    engine = FakeEngine()
    async with serving(engine) as server, server.connect("/v1/duplex?model=m") as client:
        audio = base64.b64encode(np.full(samples, 9000, "<i2").tobytes()).decode()
        await client.send("input_audio_buffer.append", audio=audio, sample_rate_hz=8000)
        await client.send("input_audio_buffer.commit")
        await client.until("response.output_audio.delta")
        await client.send("input_audio_buffer.commit")
        error = await client.until("error")
        assert error["error"]["code"] == "input_audio_buffer_empty"
        assert len(client.all("error")) == 1
    assert np.abs(engine.heard[0]).max() > 0.05
