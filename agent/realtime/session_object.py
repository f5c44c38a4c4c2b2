"""The `session` object of `session.created` and `session.updated`."""

from __future__ import annotations

from typing import Any

from agent.capabilities import capabilities
from agent.realtime.config import SessionConfig
from agent.realtime.encoded import Encoded, encode
from agent.session import Session

IDLE_TIMEOUT_S = 300.0


def session_object(session: Session, config: SessionConfig, max_sessions: int) -> Encoded:
    """What the server owns, then what the client sent, then defaults that clients read."""
    owned = _owned(session, config, max_sessions)
    return encode({**_defaults(config), **config.fields.echo, **owned})


def _defaults(config: SessionConfig) -> dict[str, Any]:
    return {
        "object": "realtime.session",
        "type": "realtime",
        "model": None,
        "modalities": ["audio", "text"],
        "output_modalities": ["audio"],
        "input_audio_format": config.input.wire()["type"],
        "output_audio_format": config.output.wire()["type"],
        "audio": {
            "input": {"format": config.input.wire(), "sample_rate_hz": config.input.rate},
            "output": {"format": config.output.wire(), "voice": config.spec.voice},
        },
        "turn_detection": config.fields.turn_detection,
        "input_audio_transcription": None,
        "tracing": None,
        "temperature": None,
        "max_tokens": None,
        "speed": 1.0,
    }


def _owned(session: Session, config: SessionConfig, max_sessions: int) -> dict[str, Any]:
    response = session.response
    return {
        "id": session.id,
        "state": session.state,
        "turn_state": "assistant_generating" if response else "idle",
        "epoch": session.epoch,
        "turn_id": 0,
        "active_request_id": None,
        "active_response_id": response.id if response else None,
        "active_response_turn_id": None,
        "instructions": session.spec.persona,
        "voice": session.spec.voice,
        "response_format": "pcm",
        "idle_timeout_s": IDLE_TIMEOUT_S,
        "overlap_policy": "listen_only",
        "overlap_short_ack_ms": 700,
        "overlap_barge_in_ms": 1200,
        "overlap_silence_rms": 0.003,
        "playback_commit_policy": "ack_only",
        "playback": {"generated_ms": 0, "sent_ms": 0, "played_ms": 0, "committed_ms": 0},
        "prefill_positions": session.prefill_positions,
        "cancel_mode": session.policy.cancel_mode,
        "capabilities": capabilities(max_sessions, session.policy.mood),
    }
