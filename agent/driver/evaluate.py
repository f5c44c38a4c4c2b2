"""From one observed session to its row in the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agent.driver import metrics
from agent.driver.acceptance import (
    AcceptanceError,
    SessionStatistics,
    check_ceiling,
    check_session,
    statistics,
)
from agent.driver.options import FRAME_SECONDS, DriverOptions
from agent.driver.pacing import SendTimes
from agent.driver.packets import AudioLedger
from agent.driver.report import (
    Distribution,
    InvalidAudioPacket,
    PacketRow,
    SendRow,
    SessionResult,
)

PACING_WARNING_MS = FRAME_SECONDS * 1e3


@dataclass(frozen=True)
class Observation:
    """All that one session left behind when its drain window ended."""

    index: int
    session_id: str | None
    planned_frames: int
    sent: Sequence[SendTimes]
    audio: AudioLedger
    audio_events: Sequence[Mapping[str, Any]] | None
    """Raw audio events; none where the transport has no such events."""
    first_text_at: float | None
    error_codes: Sequence[str]
    error: str | None
    """Phase and kind of what went wrong outside the audio, if anything did."""


def evaluate(seen: Observation, origin: float, options: DriverOptions) -> SessionResult:
    """Judge a session and compute every figure; failed checks keep their figures."""
    stats = statistics(
        seen.audio, seen.audio_events, len(seen.sent), options.voiced_frame_rms_threshold
    )
    arrivals = [metrics.Arrival(p.received_at, p.samples) for p in seen.audio.packets]
    timing = metrics.stream_timing(arrivals, [send.completed_at for send in seen.sent])
    first_send = seen.sent[0].started_at if seen.sent else None
    rtf = metrics.client_stream_rtf(arrivals, first_send)
    error, check = _verdict(seen, stats, timing, rtf, options)
    lateness = metrics.summarise([send.lateness_ms for send in seen.sent])
    return SessionResult(
        index=seen.index,
        session_id=seen.session_id,
        ok=error is None,
        error=error,
        acceptance_check=check,
        server_error_count=len(seen.error_codes),
        server_error_codes=list(seen.error_codes),
        audio_samples=stats.output_samples,
        **_counts(stats),
        **_timelines(seen, origin),
        client_first_audio_after_stream_start_ms=_after(
            arrivals[0].at if arrivals else None, first_send
        ),
        client_first_text_after_stream_start_ms=_after(seen.first_text_at, first_send),
        client_audio_packet_interval_ms=_distribution(metrics.packet_intervals_ms(arrivals)),
        client_send_lateness_ms=Distribution(**asdict(lateness)),
        client_pacing_warning=lateness.p99 is not None and lateness.p99 > PACING_WARNING_MS,
        client_stream_rtf=rtf,
        server_stream_rtf=timing.server_stream_rtf,
        stream_lag_ms=_distribution(timing.lag_ms),
        stream_lag_drift_ms=timing.lag_drift_ms,
        **_playout(arrivals),
    )


def _verdict(
    seen: Observation,
    stats: SessionStatistics,
    timing: metrics.StreamTiming,
    rtf: float | None,
    options: DriverOptions,
) -> tuple[str | None, str | None]:
    if seen.error is not None:
        return seen.error, None
    try:
        check_session(stats, seen.audio, seen.planned_frames, options)
        check_ceiling("client_stream_rtf", rtf, options.max_client_rtf)
        check_ceiling("server_stream_rtf", timing.server_stream_rtf, options.max_stream_rtf)
        check_ceiling("stream_lag_drift_ms", timing.lag_drift_ms, options.max_lag_drift_ms)
    except AcceptanceError as failed:
        return str(failed), failed.check
    return ("stream: server_error" if seen.error_codes else None), None


def _counts(stats: SessionStatistics) -> dict[str, Any]:
    return {key: value for key, value in asdict(stats).items() if key != "data_plane"}


def _timelines(seen: Observation, origin: float) -> dict[str, Any]:
    return {
        "invalid_audio_packets": [
            InvalidAudioPacket(
                event_index=bad.event_index,
                received_at_s=bad.received_at - origin,
                code=bad.code,
            )
            for bad in seen.audio.invalid
        ],
        "input_timeline": [
            SendRow(
                frame_index=send.frame_index,
                planned_at_s=send.planned_at - origin,
                send_started_at_s=send.started_at - origin,
                send_completed_at_s=send.completed_at - origin,
            )
            for send in seen.sent
        ],
        "audio_packet_timeline": [
            PacketRow(
                received_at_s=packet.received_at - origin,
                samples=packet.samples,
                response_id=packet.response_id,
            )
            for packet in seen.audio.packets
        ],
    }


def _playout(arrivals: Sequence[metrics.Arrival]) -> dict[str, Any]:
    first = metrics.playout_stall_ms(arrivals)
    steady = metrics.playout_stall_ms(arrivals, start_index=1)
    gaps = metrics.continuity(arrivals)
    return {
        "playout_stall_ms": first,
        "playout_stalled": None if first is None else first > 0,
        "steady_playout_stall_ms": steady,
        "steady_playout_stalled": None if steady is None else steady > 0,
        "audio_underrun_s": gaps.underrun_s,
        "audio_underrun_event_count": gaps.event_count,
        "audio_continuity_ok": gaps.ok,
    }


def _distribution(values: Sequence[float]) -> Distribution:
    return Distribution(**asdict(metrics.summarise(values)))


def _after(at: float | None, origin: float | None) -> float | None:
    return None if at is None or origin is None else (at - origin) * 1e3
