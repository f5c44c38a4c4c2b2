"""Wire audio to float32 at 24 kHz and back: pcm16, pcm_f32le and G.711, with stateful resampling.

Decoders and encoders belong to one session each. They know formats and rates, not events.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import soxr
from av import AudioFrame, AudioResampler
from numpy.typing import NDArray

from agent.errors import SessionError
from agent.framing import Samples
from model import SAMPLE_RATE

Encoding = Literal["pcm16", "pcm_f32le", "g711_ulaw", "g711_alaw"]
MIN_RATE, MAX_RATE = 8_000, 192_000
OUTPUT_RATES = (8_000, 16_000, 24_000, 48_000)

_SPELLINGS: dict[str, Encoding] = {
    **dict.fromkeys(("pcm16", "pcm_s16le", "s16le", "pcm", "audio/pcm", "audio/pcm16"), "pcm16"),
    **dict.fromkeys(("pcm_f32le", "f32le", "audio/pcm_f32le"), "pcm_f32le"),
    **dict.fromkeys(
        ("g711_ulaw", "g711-ulaw", "ulaw", "mulaw", "audio/g711_ulaw", "audio/pcmu"), "g711_ulaw"
    ),
    **dict.fromkeys(
        ("g711_alaw", "g711-alaw", "alaw", "audio/g711_alaw", "audio/pcma"), "g711_alaw"
    ),
}


@dataclass(frozen=True, slots=True)
class AudioFormat:
    """An encoding and its sample rate."""

    encoding: Encoding
    rate: int

    @property
    def g711(self) -> bool:
        return self.encoding in ("g711_ulaw", "g711_alaw")

    def wire(self) -> dict[str, Any]:
        """As a format object of the session."""
        return {"type": f"audio/{'pcm' if self.encoding == 'pcm16' else self.encoding}"} | {
            "rate": self.rate
        }


def encoding_of(value: object, param: str) -> Encoding:
    """The encoding behind any accepted spelling, as a string or a format object."""
    name = value.get("type") if isinstance(value, dict) else value
    encoding = _SPELLINGS.get(name.lower()) if isinstance(name, str) else None
    if encoding is None:
        raise SessionError("unsupported_audio_format", "unknown audio format", param=param)
    return encoding


def input_rate(value: object, param: str) -> int:
    """A sample rate that the input may have."""
    if isinstance(value, bool) or not isinstance(value, int) or not MIN_RATE <= value <= MAX_RATE:
        raise SessionError(
            "bad_event", f"the sample rate must be {MIN_RATE} to {MAX_RATE} Hz", param=param
        )
    return value


def output_rate(value: object, param: str) -> int:
    """A sample rate that the output may have."""
    if isinstance(value, bool) or not isinstance(value, int) or value not in OUTPUT_RATES:
        raise SessionError(
            "unsupported_audio_format", f"output is sent at one of {OUTPUT_RATES} Hz", param=param
        )
    return value


# G.711, as tables made from the formulas of ITU-T G.711.


def _ulaw_table() -> NDArray[np.float32]:
    code = ~np.arange(256, dtype=np.int32) & 0xFF
    magnitude = (((code & 0x0F) << 3) + 0x84 << ((code & 0x70) >> 4)) - 0x84
    linear = np.where(code & 0x80, -magnitude, magnitude)
    return (linear / 32768.0).astype(np.float32)


def _alaw_table() -> NDArray[np.float32]:
    code = np.arange(256, dtype=np.int32) ^ 0x55
    segment = (code & 0x70) >> 4
    magnitude = ((code & 0x0F) << 4) + np.where(segment > 0, 0x108, 0x08)
    magnitude = magnitude << np.maximum(segment - 1, 0)
    linear = np.where(code & 0x80, magnitude, -magnitude)
    return (linear / 32768.0).astype(np.float32)


_DECODE = {"g711_ulaw": _ulaw_table(), "g711_alaw": _alaw_table()}


def _encode_table(decode: NDArray[np.float32]) -> NDArray[np.uint8]:
    """For each of 65536 pcm16 values the code whose value is nearest."""
    order = np.argsort(decode, kind="stable")
    values = decode[order].astype(np.float64) * 32768.0
    middles = (values[1:] + values[:-1]) / 2.0
    nearest = np.searchsorted(middles, np.arange(-32768, 32768))
    return order[nearest].astype(np.uint8)


_ENCODE = {name: _encode_table(table) for name, table in _DECODE.items()}


def decode_base64(text: object, param: str = "audio") -> bytes:
    """Strict base64, or `bad_audio`."""
    if not isinstance(text, str):
        raise SessionError("bad_audio", "audio must be a base64 string", param=param)
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise SessionError("bad_audio", "audio is not valid base64", param=param) from error


def decode_samples(data: bytes, encoding: Encoding) -> Samples:
    """Bytes of whole, finite samples to float32 at their own rate."""
    if encoding == "pcm16":
        if len(data) % 2:
            raise SessionError("bad_audio", "pcm16 needs an even number of bytes", param="audio")
        return np.frombuffer(data, "<i2").astype(np.float32) / np.float32(32768.0)
    if encoding == "pcm_f32le":
        if len(data) % 4:
            raise SessionError("bad_event", "pcm_f32le needs 4 bytes a sample", param="audio")
        samples = np.frombuffer(data, "<f4")
        if not np.isfinite(samples).all():
            raise SessionError("bad_event", "audio holds a non-finite sample", param="audio")
        # Finite, but far beyond full scale, would overflow inside the codec.
        return np.clip(samples, -1.0, 1.0).astype(np.float32)
    return _DECODE[encoding][np.frombuffer(data, np.uint8)]


def encode_samples(samples: Samples, encoding: Encoding) -> bytes:
    """Float32 to the bytes of an output encoding."""
    linear = np.clip(np.rint(samples * np.float32(32768.0)), -32768, 32767).astype("<i2")
    wire = linear if encoding == "pcm16" else _ENCODE[encoding][linear.astype(np.int32) + 32768]
    return bytes(wire.data)


class Decoder:
    """The input side of one session: one format and rate from the first append on."""

    def __init__(self) -> None:
        self.format: AudioFormat | None = None
        self._resampler: Any = None

    def decode(self, text: object, wanted: AudioFormat) -> Samples:
        """Base64 in the given format to samples at 24 kHz."""
        if self.format is not None and wanted != self.format:
            raise SessionError(
                "bad_event", "format and rate are fixed by the first audio", param="format"
            )
        return self.resample(decode_samples(decode_base64(text), wanted.encoding), wanted)

    def resample(self, samples: Samples, wanted: AudioFormat) -> Samples:
        """Samples at their own rate to 24 kHz, with the filter's memory of the call."""
        self.format = wanted
        if wanted.rate == SAMPLE_RATE:
            return samples
        if self._resampler is None:
            self._resampler = soxr.ResampleStream(wanted.rate, SAMPLE_RATE, 1, dtype="float32")
        resampled: Samples = self._resampler.resample_chunk(samples)
        return resampled

    def flush(self) -> Samples:
        """What the filter still holds, at the end of a turn; the next append starts it afresh."""
        if self._resampler is None:
            return np.zeros(0, np.float32)
        tail: Samples = self._resampler.resample_chunk(np.zeros(0, np.float32), last=True)
        self._resampler = None
        return tail


class Encoder:
    """The output side of one response: for each frame as many samples as its time takes.

    Resampled sound is late by the filter's own delay, 2 ms at most, and what the filter holds at
    the end of the response is not sent. Of the two libraries' filters FFmpeg's answers each frame
    at once, where soxr's gives blocks of its own length.
    """

    def __init__(self, wanted: AudioFormat) -> None:
        self.format = wanted
        self._resampler = None
        if wanted.rate != SAMPLE_RATE:
            self._resampler = AudioResampler(format="flt", layout="mono", rate=wanted.rate)
        self._ahead: Samples = np.zeros(0, np.float32)

    def encode(self, samples: Samples) -> bytes:
        """Samples at 24 kHz, whole frames, to bytes of the same time."""
        if self._resampler is not None:
            samples = self._resample(samples, self._resampler)
        return encode_samples(samples, self.format.encoding)

    def _resample(self, samples: Samples, resampler: AudioResampler) -> Samples:
        frame = AudioFrame.from_ndarray(samples[None], format="flt", layout="mono")
        frame.sample_rate = SAMPLE_RATE
        made = [self._ahead, *(part.to_ndarray()[0] for part in resampler.resample(frame))]
        size = samples.size * self.format.rate // SAMPLE_RATE
        late = np.zeros(max(0, size - sum(part.size for part in made)), np.float32)
        whole: Samples = np.concatenate([late, *made])
        self._ahead = whole[size:]
        return whole[:size]
