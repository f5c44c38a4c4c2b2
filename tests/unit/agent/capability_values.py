"""What clients are told that this server can do, value by value.

Written out, and not taken from the code: drivers of the protocol check these.
"""

from __future__ import annotations

from typing import Any

OF_A_SESSION: dict[str, Any] = {
    "adapter_patterns": ["scheduler_data_plane"],
    "chunk_period_ms": 80,
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
    "supports_multi_session": True,
    "supports_multi_session_same_replica": True,
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
"""Of a server with two slots; the session of a call names its mood besides."""
OF_ONE_SLOT = {"supports_multi_session": False, "supports_multi_session_same_replica": False}
OF_THE_SERVER = {
    "input_modalities": ["audio"],
    "output_modalities": ["audio", "text"],
    "proactive": True,
    "supports_chat_completions": False,
}
