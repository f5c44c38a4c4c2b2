"""Audio packets are judged as they stood on the wire."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from agent.driver.packets import AudioLedger

pytestmark = pytest.mark.unit


def event(**changes: Any) -> dict[str, Any]:
    good = {
        "delta": base64.b64encode(b"\x01\x02" * 1920).decode(),
        "sample_rate_hz": 24_000,
        "response_id": "resp-1",
    }
    return {**good, **changes}


def take(*events: dict[str, Any]) -> AudioLedger:
    ledger = AudioLedger()
    for index, one in enumerate(events):
        ledger.take(one, index, float(index))
    return ledger


# contract: K2
@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"delta": None}, "missing_audio_delta"),
        ({"delta": 7}, "missing_audio_delta"),
        ({"delta": "!!!!"}, "invalid_audio_base64"),
        ({"delta": "AAA"}, "invalid_audio_base64"),
        ({"delta": "AA ==\n"}, "invalid_audio_base64"),
        ({"delta": base64.b64encode(b"odd").decode()}, "unaligned_pcm16_packet"),
        ({"sample_rate_hz": 16_000}, "invalid_audio_sample_rate"),
        ({"sample_rate_hz": None}, "invalid_audio_sample_rate"),
        ({"response_id": None}, "missing_audio_response_id"),
        ({"response_id": ""}, "missing_audio_response_id"),
    ],
)
def test_a_bad_packet_is_listed_and_adds_nothing(changes: dict[str, Any], code: str) -> None:
    ledger = take(event(), event(**changes), event())
    assert [(bad.event_index, bad.received_at, bad.code) for bad in ledger.invalid] == [
        (1, 1.0, code)
    ]
    assert ledger.samples == 2 * 1920
    assert [packet.received_at for packet in ledger.packets] == [0.0, 2.0]


# contract: K2
def test_an_empty_delta_is_legal_and_adds_nothing() -> None:
    ledger = take(event(delta="", sample_rate_hz=None, response_id=None))
    assert (ledger.packets, ledger.invalid) == ([], [])
