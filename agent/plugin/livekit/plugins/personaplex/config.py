"""What a client asks of its session: audio formats, voice, persona, and the JSON that says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_SAMPLE_BYTES = {"pcm16": 2, "pcm_f32le": 4, "g711_ulaw": 1, "g711_alaw": 1}


@dataclass(frozen=True, slots=True)
class AudioFormat:
    """An encoding (`pcm16`, `pcm_f32le`, `g711_ulaw`, `g711_alaw`) and its rate in Hz."""

    encoding: str
    sample_rate_hz: int

    @property
    def bytes_per_sample(self) -> int:
        return _SAMPLE_BYTES[self.encoding]

    def duration_ms(self, byte_count: int) -> float:
        return 1000.0 * byte_count / (self.bytes_per_sample * self.sample_rate_hz)

    def byte_count(self, duration_ms: float) -> int:
        """Whole samples only."""
        return round(duration_ms * self.sample_rate_hz / 1000) * self.bytes_per_sample


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """The opening of a session; what is none is left to the server."""

    modalities: tuple[str, ...] = ("audio", "text")
    input_audio: AudioFormat = AudioFormat("pcm16", 16_000)
    output_audio: AudioFormat = AudioFormat("pcm16", 24_000)
    instructions: str | None = None
    ref_audio: str | None = None
    voice: str | None = None
    auto_response: bool = True
    temperature: float | None = None
    overlap_policy: str | None = None
    playback_commit_policy: str | None = None
    turn_detection: Mapping[str, Any] | None = None
    idle_timeout_s: float | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)

    def to_session_payload(self, *, model: str) -> dict[str, Any]:
        """The `session` object of the opening `session.update`."""
        payload: dict[str, Any] = {
            "model": model,
            "modalities": list(self.modalities),
            "input_audio_format": self.input_audio.encoding,
            "output_audio_format": self.output_audio.encoding,
            "sample_rate_hz": self.input_audio.sample_rate_hz,
            "audio": {
                "input": {"sample_rate_hz": self.input_audio.sample_rate_hz},
                "output": {"sample_rate_hz": self.output_audio.sample_rate_hz},
            },
            "turn_detection": self.turn_detection and dict(self.turn_detection),
            "extra_body": {"auto_response": self.auto_response, **self.extra_body},
        }
        wishes = (
            "instructions",
            "voice",
            "ref_audio",
            "temperature",
            "overlap_policy",
            "playback_commit_policy",
            "idle_timeout_s",
        )
        named = {name: getattr(self, name) for name in wishes}
        return payload | {name: value for name, value in named.items() if value is not None}
