"""What a session's output must satisfy, in a fixed order; the first check that fails is named."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from agent.driver.options import FRAME_SAMPLES, DriverOptions
from agent.driver.packets import AudioLedger

MINIMUM_RMS = 1e-5

REQUIRED_CAPABILITIES: Mapping[str, object] = {
    "implementation_level": "model_native_duplex",
    "chunk_period_ms": 80,
    "supports_multi_session": True,
    "supports_multi_session_same_replica": True,
    "supports_barge_in": False,
}
DATA_PLANE: Mapping[str, object] = {
    "runtime_impl": "scheduler_data_plane",
    "uses_model_runner_scheduler": True,
    "runner_kv_backed": True,
}


class AcceptanceError(Exception):
    """A check failed; the text holds its numbers and nothing that the server wrote."""

    def __init__(self, check: str, numbers: str) -> None:
        super().__init__(f"{check}: {numbers}")
        self.check = check


@dataclass(frozen=True)
class SessionStatistics:
    """Frame accounting of one session; null where valid whole-frame accounting is unavailable."""

    input_frames: int
    output_samples: int
    output_frames: int | None
    frame_deficit: int | None
    frame_coverage_ratio: float | None
    voiced_frames: int | None
    silent_frames: int | None
    audio_rms: float | None
    audio_chunks: int
    data_plane: bool | None
    """Null where the transport carries no such metadata."""
    response_ids: list[str]


def statistics(
    audio: AudioLedger,
    audio_events: Iterable[Mapping[str, Any]] | None,
    input_frames: int,
    voiced_threshold: float,
) -> SessionStatistics:
    """Count what came for `input_frames` frames sent."""
    pcm = audio.pcm()
    counted = len(pcm) > 0 and len(pcm) % FRAME_SAMPLES == 0
    frames = len(pcm) // FRAME_SAMPLES if counted else None
    voiced = _voiced(pcm, voiced_threshold) if counted else None
    return SessionStatistics(
        input_frames=input_frames,
        output_samples=len(pcm),
        output_frames=frames,
        frame_deficit=None if frames is None else input_frames - frames,
        frame_coverage_ratio=frames / input_frames if frames and input_frames else None,
        voiced_frames=voiced,
        silent_frames=None if frames is None or voiced is None else frames - voiced,
        audio_rms=float(np.sqrt(np.mean(np.square(pcm)))) if len(pcm) else None,
        audio_chunks=len(audio.packets),
        data_plane=None if audio_events is None else any(map(_on_data_plane, audio_events)),
        response_ids=audio.response_ids,
    )


def _voiced(pcm: np.ndarray[Any, np.dtype[np.float32]], threshold: float) -> int:
    rms = np.sqrt(np.mean(np.square(pcm.reshape(-1, FRAME_SAMPLES)), axis=1))
    return int(np.count_nonzero(rms >= threshold))


def _on_data_plane(event: Mapping[str, Any]) -> bool:
    metadata = event.get("metadata")
    facts = metadata.get("vllm_omni") if isinstance(metadata, dict) else None
    return isinstance(facts, dict) and all(facts.get(k) == v for k, v in DATA_PLANE.items())


def check_session(
    stats: SessionStatistics, audio: AudioLedger, planned_frames: int, options: DriverOptions
) -> None:
    """Raise `AcceptanceError` at the first rule that the session breaks."""
    bad = len(audio.invalid)
    require(not bad, "audio_packets", f"{bad} invalid")
    require(stats.output_samples > 0, "pcm16_output", "0 samples")
    rms = stats.audio_rms if stats.audio_rms is not None else math.nan
    require(math.isfinite(rms) and rms > MINIMUM_RMS, "audio_rms", f"{rms:.2e}")
    require(
        0 < stats.input_frames == planned_frames,
        "input_frames",
        f"{stats.input_frames} of {planned_frames} sent",
    )
    require(
        stats.output_samples % FRAME_SAMPLES == 0,
        "whole_codec_frames",
        f"{stats.output_samples} samples",
    )
    _at_least("audio_chunks", stats.audio_chunks, options.minimum_audio_chunks)
    deficit = stats.frame_deficit if stats.frame_deficit is not None else stats.input_frames
    require(
        0 <= deficit <= options.max_frame_deficit,
        "frame_deficit",
        f"input {stats.input_frames}, output {stats.output_frames}, "
        f"deficit {deficit}, allowed 0 to {options.max_frame_deficit}",
    )
    _at_least("voiced_frames", stats.voiced_frames or 0, options.min_voiced_frames)
    require(stats.data_plane is not False, "scheduler_data_plane", "0 deltas with its metadata")
    ids = len(stats.response_ids)
    require(ids == 1, "response_identity", f"{ids} response ids, expected 1")


def check_capabilities(capabilities: Mapping[str, Any]) -> None:
    """Raise `AcceptanceError` where a capability that the scenario rests on differs."""
    wrong = [key for key, value in REQUIRED_CAPABILITIES.items() if capabilities.get(key) != value]
    require(not wrong, "capabilities", ", ".join(wrong))


def check_ceiling(check: str, value: float | None, ceiling: float | None) -> None:
    """Raise `AcceptanceError` where a gate is set and its figure is missing or above it."""
    if ceiling is None:
        return
    shown = "missing" if value is None else f"{value:.3f}"
    require(value is not None and value <= ceiling, check, f"{shown}, allowed {ceiling}")


def _at_least(check: str, value: int, minimum: int) -> None:
    require(value >= minimum, check, f"{value}, at least {minimum}")


def require(condition: bool, check: str, numbers: str) -> None:
    """Raise `AcceptanceError` where `condition` does not hold."""
    if not condition:
        raise AcceptanceError(check, numbers)
