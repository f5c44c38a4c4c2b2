"""What this server can do, under the keys that clients of the protocol check.

`docs/realtime.md` says what each value means here. Values that describe behaviour are tested.
"""

from __future__ import annotations

from typing import Any

from model import FRAME_SECONDS


def capabilities(max_sessions: int, mood: str | None = None) -> dict[str, Any]:
    """The `capabilities` object of a session."""
    several = max_sessions > 1
    values: dict[str, Any] = {
        "adapter_patterns": ["scheduler_data_plane"],
        "chunk_period_ms": round(FRAME_SECONDS * 1000),
        "implementation_level": "model_native_duplex",
        "input_modes": ["append_audio_chunk"],
        "optional_input_modalities": [],
        "required_input_modalities": ["audio"],
        "requires_model_runner_kv": True,
        "requires_native_stage_role": True,
        "session_admission_mode": "engine_managed",
        "signal_sources": ["model_native", "client_event"],
        "stage_handoff_transport": "scheduler_data_plane",
        "supports_audio_truncate": False,
        "supports_barge_in": False,
        "supports_client_commit": False,
        "supports_concurrent_turn_requests": False,
        "supports_core_kv_lease": False,
        "supports_core_resumable_request": True,
        "supports_external_turn_signal": False,
        "supports_image_input": False,
        "supports_independent_io_streams": True,
        "supports_input_append": True,
        "supports_kv_lease": False,
        "supports_model_internal_state": True,
        "supports_model_native_turn_policy": True,
        "supports_multi_session": several,
        "supports_multi_session_same_replica": several,
        "supports_playback_ack": True,
        "supports_realtime_endpoint": True,
        "supports_reencode_context": False,
        "supports_replace_latest_chunk": False,
        "supports_rollback_to_checkpoint": False,
        "supports_scheduler_native_append": False,
        "supports_session_adapter": True,
        "supports_session_lease": True,
        "supports_session_resume": False,
        "supports_stage_connector_handoff": True,
        "supports_stage_resumption": True,
        "supports_text_only_turn": False,
        "supports_turn_commit_only": False,
        "target_barge_in_latency_ms": None,
    }
    if mood is not None:
        values["mood"] = mood
    return values


def server_capabilities(max_sessions: int) -> dict[str, Any]:
    """The body of `GET /v1/capabilities`: the above, and what concerns the whole server."""
    return {
        **capabilities(max_sessions),
        "input_modalities": ["audio"],
        "max_sessions": max_sessions,
        "output_modalities": ["audio", "text"],
        "proactive": True,
        "supports_chat_completions": False,
    }
