"""The shape of `load-result.json`, its schema, and writing it exactly once.

Times are seconds on the client's monotonic clock, with zero at the common input start.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

RESULT_NAME = "load-result.json"

MEASUREMENT_ORIGIN = (
    "client monotonic clock, seconds; zero is the common input start of the admitted sessions"
)
INTERVAL_DEFINITION = (
    "time between consecutive nonempty audio packets; interval 0 ends at packet 1; one packet may "
    "hold several codec frames, so this is no server step time"
)
STREAM_TIMING_DEFINITION = (
    "output frame k completes when k*1920 samples have arrived; its reference is the send "
    "completion of input frame k-1 plus 80 ms; server_stream_rtf is the least-squares slope over "
    "the middle 10-90 % of the last frame that each packet completes; client_stream_rtf runs from "
    "the first send start to the last audio receipt, over the received duration, and includes "
    "real-time input pacing"
)


class Strict(BaseModel):
    """No NaN, no infinity, no unknown field."""

    model_config = ConfigDict(allow_inf_nan=False, extra="forbid", frozen=True)


class Distribution(Strict):
    """Everything but the count is null where there are no values; `p99` is linear."""

    count: int
    median: float | None
    p99: float | None
    max: float | None
    argmax_index: int | None


class InvalidAudioPacket(Strict):
    event_index: int
    received_at_s: float
    code: str


class SendRow(Strict):
    frame_index: int
    planned_at_s: float
    send_started_at_s: float
    send_completed_at_s: float


class PacketRow(Strict):
    received_at_s: float
    samples: int
    response_id: str


class SessionResult(Strict):
    """One attempted session; a refused one stays a failed row."""

    index: int
    session_id: str | None
    ok: bool
    error: str | None
    acceptance_check: str | None
    server_error_count: int
    server_error_codes: list[str]
    input_frames: int
    output_frames: int | None
    output_samples: int
    audio_samples: int
    audio_chunks: int
    audio_rms: float | None
    voiced_frames: int | None
    silent_frames: int | None
    frame_deficit: int | None
    frame_coverage_ratio: float | None
    response_ids: list[str]
    invalid_audio_packets: list[InvalidAudioPacket]
    client_first_audio_after_stream_start_ms: float | None
    client_first_text_after_stream_start_ms: float | None
    client_audio_packet_interval_ms: Distribution
    client_send_lateness_ms: Distribution
    client_pacing_warning: bool
    client_stream_rtf: float | None
    server_stream_rtf: float | None
    stream_lag_ms: Distribution
    stream_lag_drift_ms: float | None
    playout_stall_ms: float | None
    playout_stalled: bool | None
    steady_playout_stall_ms: float | None
    steady_playout_stalled: bool | None
    audio_underrun_s: float | None
    audio_underrun_event_count: int | None
    audio_continuity_ok: bool | None
    input_timeline: list[SendRow]
    audio_packet_timeline: list[PacketRow]


class InputInfo(Strict):
    path: str
    sha256: str
    tail_s: float
    load_frames: int


class Acceptance(Strict):
    """The limits that this run was held against."""

    max_frame_deficit: int
    voiced_frame_rms_threshold: float
    min_voiced_frames: int
    minimum_audio_chunks: int


class ReportedServer(Strict):
    """Given by the operator; neither detected nor verified by the client."""

    revision: str | None
    hardware: str | None
    source: Literal["operator-supplied"] = "operator-supplied"


class LoadResult(Strict):
    """`load-result.json`."""

    schema_version: Literal[1] = 1
    mode: Literal["paced_multi_session"] = "paced_multi_session"
    transport: Literal["websocket", "livekit"]
    model: str
    requested_sessions: int
    passed_sessions: int
    ok: bool
    input: InputInfo
    frame_period_s: float
    drain_s: float
    cleanup_timeout_s: float
    client_pacing_warning_threshold_ms: float
    client_pacing_warning_sessions: list[int]
    max_client_rtf: float | None
    max_stream_rtf: float | None
    max_lag_drift_ms: float | None
    acceptance: Acceptance
    shared_response_ids: list[str]
    sessions: list[SessionResult]
    reported_server: ReportedServer
    measurement_origin: str = MEASUREMENT_ORIGIN
    interval_definition: str = INTERVAL_DEFINITION
    stream_timing_definition: str = STREAM_TIMING_DEFINITION


class ReportExists(Exception):
    """The output folder already holds a report; a run never overwrites one."""


def refuse_existing(folder: Path) -> None:
    """Raise `ReportExists` before anything is connected."""
    if (folder / RESULT_NAME).exists():
        raise ReportExists(f"{folder / RESULT_NAME} exists; use a new --output-dir for every run")


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Create `path` exclusively; NaN is refused."""
    text = json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False)
    with path.open("x", encoding="utf-8") as file:
        file.write(text + "\n")
