"""The speech model and its engine: everything that `agent` may import stands here.

What crosses over is plain data (`model/core.py`), the `Engine` protocol and the ways to make one.
What needs torch, which takes seconds to import, is imported when it is first asked for: so a
command can refuse bad input before.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from model.checkpoint.errors import CheckpointError
from model.checkpoint.locate import local_files
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

if TYPE_CHECKING:
    from model.checkpoint.load import CheckpointInfo, describe
    from model.diagnose import Needs, StepTimes, memory_needs, time_steps
    from model.enrolment import VoiceReport, add_voice, check_voices
    from model.host import Device, inspect_device
    from model.loading import PersonaPlexEngine, load_engine
    from model.offline import OfflineBatch, OfflineFrame, offline_batch
else:
    _NEED_TORCH = {
        "model.checkpoint.load": ("CheckpointInfo", "describe"),
        "model.diagnose": ("Needs", "StepTimes", "memory_needs", "time_steps"),
        "model.enrolment": ("VoiceReport", "add_voice", "check_voices"),
        "model.host": ("Device", "inspect_device"),
        "model.loading": ("PersonaPlexEngine", "load_engine"),
        "model.offline": ("OfflineBatch", "OfflineFrame", "offline_batch"),
    }

    def __getattr__(name: str) -> object:
        for module, names in _NEED_TORCH.items():
            if name in names:
                return getattr(import_module(module), name)
        raise AttributeError(f"module 'model' has no attribute {name!r}")


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
    "local_files",
    "memory_needs",
    "offline_batch",
    "time_steps",
]
