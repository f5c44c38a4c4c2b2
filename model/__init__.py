"""The speech model and its engine: everything that `agent` may import stands here.

What crosses over is plain data (`model/core.py`), the `Engine` protocol and the ways to make one.
"""

from model.checkpoint.errors import CheckpointError
from model.checkpoint.load import CheckpointInfo, describe
from model.core import (
    AGENT_CODEBOOKS,
    FRAME_SAMPLES,
    FRAME_SECONDS,
    SAMPLE_RATE,
    STEP_BUCKETS_S,
    Bound,
    CallFailed,
    Deliver,
    Engine,
    EngineError,
    EngineEvent,
    EngineFault,
    EngineStats,
    FrameResult,
    Handle,
    InputOverflow,
    InvalidVoice,
    Pcm,
    PrefillUnavailable,
    PromptTooLong,
    Released,
    ResourceExhausted,
    Sampling,
    SessionSpec,
)
from model.diagnose import Needs, StepTimes, memory_needs, time_steps
from model.enrolment import VoiceReport, add_voice, check_voices
from model.host import Device, inspect_device
from model.loading import PersonaPlexEngine, load_engine
from model.offline import OfflineBatch, OfflineFrame, offline_batch

__all__ = [
    "AGENT_CODEBOOKS",
    "FRAME_SAMPLES",
    "FRAME_SECONDS",
    "SAMPLE_RATE",
    "STEP_BUCKETS_S",
    "Bound",
    "CallFailed",
    "CheckpointError",
    "CheckpointInfo",
    "Deliver",
    "Device",
    "Engine",
    "EngineError",
    "EngineEvent",
    "EngineFault",
    "EngineStats",
    "FrameResult",
    "Handle",
    "InputOverflow",
    "InvalidVoice",
    "Needs",
    "OfflineBatch",
    "OfflineFrame",
    "Pcm",
    "PersonaPlexEngine",
    "PrefillUnavailable",
    "PromptTooLong",
    "Released",
    "ResourceExhausted",
    "Sampling",
    "SessionSpec",
    "StepTimes",
    "VoiceReport",
    "add_voice",
    "check_voices",
    "describe",
    "inspect_device",
    "load_engine",
    "memory_needs",
    "offline_batch",
    "time_steps",
]
