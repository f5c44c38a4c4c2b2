"""Audio packets as they stood on the wire: strict checks, fixed codes, and what was valid.

Works on the raw event, not on a client's decoded form, so that a server cannot hide a malformed
packet behind a tolerant library.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from agent.driver.options import FRAME_SAMPLES, SAMPLE_RATE

AUDIO_EVENTS = frozenset({"response.output_audio.delta", "response.audio.delta"})

PacketCode = Literal[
    "missing_audio_delta",
    "invalid_audio_base64",
    "unaligned_pcm16_packet",
    "invalid_audio_sample_rate",
    "missing_audio_response_id",
]


class PacketError(ValueError):
    """One audio packet broke a wire rule; `code` names it and nothing of its content."""

    def __init__(self, code: PacketCode) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True)
class AudioPacket:
    """A valid, nonempty packet."""

    received_at: float
    pcm16: bytes
    response_id: str

    @property
    def samples(self) -> int:
        return len(self.pcm16) // 2


@dataclass(frozen=True)
class InvalidPacket:
    """Where and when a bad packet came."""

    event_index: int
    received_at: float
    code: PacketCode


def parse_packet(event: Mapping[str, Any], received_at: float) -> AudioPacket | None:
    """The packet of one audio event, `None` for an empty delta. Raises `PacketError`."""
    delta = event.get("delta")
    if not isinstance(delta, str):
        raise PacketError("missing_audio_delta")
    try:
        pcm16 = base64.b64decode(delta, validate=True)
    except (binascii.Error, ValueError) as error:
        raise PacketError("invalid_audio_base64") from error
    if not pcm16:
        return None
    if len(pcm16) % 2:
        raise PacketError("unaligned_pcm16_packet")
    if event.get("sample_rate_hz") != SAMPLE_RATE:
        raise PacketError("invalid_audio_sample_rate")
    response_id = event.get("response_id")
    if not isinstance(response_id, str) or not response_id:
        raise PacketError("missing_audio_response_id")
    return AudioPacket(received_at, pcm16, response_id)


@dataclass
class AudioLedger:
    """All audio of one session, in order of arrival."""

    packets: list[AudioPacket] = field(default_factory=list)
    invalid: list[InvalidPacket] = field(default_factory=list)

    def take(self, event: Mapping[str, Any], event_index: int, received_at: float) -> None:
        """Record one audio event, valid or not."""
        try:
            packet = parse_packet(event, received_at)
        except PacketError as error:
            self.invalid.append(InvalidPacket(event_index, received_at, error.code))
            return
        if packet is not None:
            self.packets.append(packet)

    def since(self, packet_index: int) -> AudioLedger:
        """The packets from `packet_index` on, as a ledger of their own."""
        return AudioLedger(self.packets[packet_index:], list(self.invalid))

    @property
    def samples(self) -> int:
        return sum(packet.samples for packet in self.packets)

    @property
    def frames(self) -> int:
        """Whole frames that all samples together make."""
        return self.samples // FRAME_SAMPLES

    @property
    def response_ids(self) -> list[str]:
        """Distinct response ids in order of first appearance."""
        return list(dict.fromkeys(packet.response_id for packet in self.packets))

    def pcm(self) -> NDArray[np.float32]:
        """All samples, `[N]` float32 in -1..1."""
        raw = b"".join(packet.pcm16 for packet in self.packets)
        return np.frombuffer(raw, dtype="<i2").astype(np.float32) / 32_768.0
