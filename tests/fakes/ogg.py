"""Ogg-Opus streams out of any packets: their pages are whole and their checksums right."""

from __future__ import annotations

import struct
from collections.abc import Sequence

FRAME_TICKS = 960
"""20 ms at the 48 kHz that Ogg counts Opus in."""
HEAD = b"OpusHead" + struct.pack("<BBHIhB", 1, 1, 312, 24_000, 0, 0)
TAGS = b"OpusTags" + struct.pack("<II", 0, 0)
FIRST_PAGE = 2


def opus_stream(packets: Sequence[bytes]) -> bytes:
    """A mono stream with a page for each of these packets, whatever they hold."""
    pages = [_page(HEAD, 0, 0, FIRST_PAGE), _page(TAGS, 1, 0)]
    pages += [_page(data, 2 + i, (i + 1) * FRAME_TICKS) for i, data in enumerate(packets)]
    return b"".join(pages)


def _page(packet: bytes, number: int, ticks: int, flags: int = 0) -> bytes:
    laces = b"\xff" * (len(packet) // 255) + bytes([len(packet) % 255])
    start = struct.pack("<4sBBqII", b"OggS", 0, flags, ticks, 1, number)
    rest = struct.pack("<B", len(laces)) + laces + packet
    return start + struct.pack("<I", _checksum(start + bytes(4) + rest)) + rest


def _checksum(page: bytes) -> int:
    """CRC-32 with polynomial 0x04C11DB7, most significant bit first, from zero."""
    value = 0
    for byte in page:
        value ^= byte << 24
        for _ in range(8):
            value = (value << 1 ^ (0x04C11DB7 if value & 0x80000000 else 0)) & 0xFFFFFFFF
    return value
