"""Wire audio: formats, spellings, rates, and that chunking changes nothing."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest

from agent.errors import SessionError
from agent.realtime.audio import (
    AudioFormat,
    Decoder,
    Encoder,
    decode_samples,
    encode_samples,
    encoding_of,
    output_rate,
)

pytestmark = pytest.mark.unit


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def sine(rate: int, seconds: float = 1.0, hz: float = 440.0) -> np.ndarray:
    return (0.5 * np.sin(2 * np.pi * hz * np.arange(int(rate * seconds)) / rate)).astype(np.float32)


@pytest.mark.parametrize("name", ["g711_ulaw", "g711_alaw"])
def test_g711_codes_survive_a_round_trip(name: Any) -> None:  # contract: C1
    codes = np.arange(256, dtype=np.uint8)
    decoded = decode_samples(codes.tobytes(), name)
    again = np.frombuffer(encode_samples(decoded, name), np.uint8)
    assert np.array_equal(decode_samples(again.tobytes(), name), decoded)


def test_g711_against_known_values() -> None:  # contract: C1
    """The ends of the scales of ITU-T G.711."""
    ulaw = decode_samples(bytes([0x00, 0x80, 0x7F, 0xFF]), "g711_ulaw") * 32768
    assert ulaw.tolist() == [-32124.0, 32124.0, 0.0, 0.0]
    alaw = decode_samples(bytes([0x2A, 0xAA, 0x55, 0xD5]), "g711_alaw") * 32768
    assert alaw.tolist() == [-32256.0, 32256.0, -8.0, 8.0]


@pytest.mark.parametrize("name", ["g711_ulaw", "g711_alaw"])
def test_g711_is_close_to_what_was_said(name: Any) -> None:
    sound = sine(8000)
    heard = decode_samples(encode_samples(sound, name), name)
    assert 10 * np.log10(np.mean(sound**2) / np.mean((heard - sound) ** 2)) > 35


@pytest.mark.parametrize(
    ("spelling", "encoding"),
    [
        ("pcm16", "pcm16"),
        ("audio/pcm", "pcm16"),
        ({"type": "audio/pcm", "rate": 24000}, "pcm16"),
        ("PCM_F32LE", "pcm_f32le"),
        ("audio/pcmu", "g711_ulaw"),
        ("g711_ulaw", "g711_ulaw"),
        ({"type": "audio/pcma"}, "g711_alaw"),
        ("g711-alaw", "g711_alaw"),
    ],
)
def test_spellings(spelling: object, encoding: str) -> None:  # contract: C1
    assert encoding_of(spelling, "format") == encoding


@pytest.mark.parametrize("rate", [8000, 11025, 16000, 44100, 48000, 192000])
def test_any_rate_arrives_at_24_khz(rate: int) -> None:  # contract: C1
    decoder, wanted = Decoder(), AudioFormat("pcm_f32le", rate)
    sound = sine(rate)
    parts = [decoder.decode(b64(part.tobytes()), wanted) for part in np.array_split(sound, 7)]
    heard = np.concatenate([*parts, decoder.flush()])
    assert abs(heard.size - 24000) <= 2
    middle = slice(2000, 22000)
    assert np.abs(heard[middle] - sine(24000)[middle]).max() < 5e-3


@pytest.mark.parametrize("rate", [8000, 24000, 44100])
def test_chunking_changes_nothing(rate: int) -> None:  # contract: C2
    sound = encode_samples(sine(rate), "pcm16")
    wanted = AudioFormat("pcm16", rate)

    def heard(step: int) -> np.ndarray:
        decoder = Decoder()
        parts = [
            decoder.decode(b64(sound[i : i + step]), wanted) for i in range(0, len(sound), step)
        ]
        return np.concatenate([*parts, decoder.flush()])

    assert np.array_equal(heard(74), heard(len(sound)))
    assert np.array_equal(heard(74), heard(3840))


@pytest.mark.parametrize("rate", [8000, 16000, 48000])
def test_a_frame_has_its_own_time_at_any_output_rate(rate: int) -> None:  # contract: C6, D1
    """Of a minute of frames: not one sample more or less in any, and the tone is the same tone."""
    encoder = Encoder(AudioFormat("pcm16", rate))
    frames = [encoder.encode(frame) for frame in sine(24000, 60).reshape(-1, 1920)]
    assert {len(frame) for frame in frames} == {2 * rate * 8 // 100}
    heard = np.frombuffer(b"".join(frames), "<i2") / 32768
    off = [
        np.abs(heard[rate + n : 2 * rate + n] - sine(rate)).max() for n in range(rate // 500 + 1)
    ]
    print(f"{rate} Hz: late by {int(np.argmin(off))} samples, off by {min(off):.5f}")
    assert min(off) < 5e-3


@pytest.mark.parametrize("rate", [24000.0, True, "24000", 44100, None])
def test_output_rates_are_whole_numbers_of_a_few(rate: object) -> None:  # contract: C1
    with pytest.raises(SessionError) as refused:
        output_rate(rate, "rate")
    assert refused.value.code == "unsupported_audio_format"


@pytest.mark.parametrize(
    ("data", "encoding", "code"),
    [
        (b"\x00", "pcm16", "bad_audio"),
        (b"\x00" * 6, "pcm_f32le", "bad_event"),
        (np.float32([0.0, np.nan]).tobytes(), "pcm_f32le", "bad_event"),
        (np.float32([np.inf]).tobytes(), "pcm_f32le", "bad_event"),
    ],
)
def test_what_is_no_audio_is_refused(data: bytes, encoding: Any, code: str) -> None:  # contract: C1
    with pytest.raises(SessionError) as refused:
        decode_samples(data, encoding)
    assert refused.value.code == code


@pytest.mark.parametrize("text", ["A", "AA=A", "AAAA\n", "é===", "A A=", None, 7])
def test_base64_is_strict(text: object) -> None:  # contract: C1
    with pytest.raises(SessionError) as refused:
        Decoder().decode(text, AudioFormat("pcm16", 24000))
    assert refused.value.code == "bad_audio"


def test_format_and_rate_are_fixed_by_the_first_audio() -> None:  # contract: C1
    decoder = Decoder()
    decoder.decode(b64(bytes(48)), AudioFormat("pcm16", 24000))
    for changed in (AudioFormat("pcm16", 16000), AudioFormat("pcm_f32le", 24000)):
        with pytest.raises(SessionError) as refused:
            decoder.decode(b64(bytes(48)), changed)
        assert refused.value.code == "bad_event"


def test_float_input_is_untouched_within_full_scale_and_clipped_beyond() -> None:
    sound = np.float32([0.1234567, -1.0, 1.0, 3e38, -7.0])
    heard = decode_samples(sound.tobytes(), "pcm_f32le")
    assert heard.tolist() == np.float32([0.1234567, -1.0, 1.0, 1.0, -1.0]).tolist()
