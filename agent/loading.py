"""The engine that a command runs with, from its settings; nothing of LiveKit or HTTP."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, cast

from agent.command import CommandError
from agent.memory import shortage
from agent.settings import Settings
from model import (
    CheckpointError,
    Engine,
    EngineError,
    describe,
    inspect_device,
    load_engine,
    memory_needs,
)

log = logging.getLogger(__name__)
MIB = 2**20
BUNDLED = "demo"
RANDOM_NOTICE = "The weights are random: it answers with noise, not with speech."
DEMO_NOTICE = "This is the small demo model: it knows a few set phrases only."


@dataclass(frozen=True, slots=True)
class ModelAbout:
    """What people should know of a checkpoint before they talk to it."""

    notice: str | None = None
    licence: str | None = None


class OwnedEngine(Engine, Protocol):
    """An engine that this process has to end."""

    def shutdown(self) -> None: ...


EngineFactory = Callable[[Settings], OwnedEngine]


def make_engine(settings: Settings) -> OwnedEngine:
    """The real engine. Raises `CommandError` for a model that cannot be used."""
    dtype = cast(Literal["float32", "bfloat16"], settings.dtype)
    prefix = settings.prefix_cache_mib
    try:
        about = about_model(settings)
        log.info("loading the model %s, licence: %s", settings.model, about.licence or "none named")
        if about.notice:
            log.warning(about.notice)
        _demand_memory(settings)
        return load_engine(
            settings.model,
            max_sessions=settings.max_sessions,
            device=settings.device,
            dtype=None if settings.dtype == "auto" else dtype,
            quantise="int8" if settings.quantize == "int8" else None,
            sampling=settings.allow_sampling,
            prefix_bytes=None if prefix < 0 else prefix * MIB,
        )
    except (CheckpointError, EngineError) as error:
        raise CommandError(str(error)) from error


def _demand_memory(settings: Settings) -> None:
    """What would not fit, before it is loaded. int8 weights have no size until they are made."""
    if settings.quantize != "none":
        return
    device = inspect_device(settings.device)
    dtype = None if settings.dtype == "auto" else settings.dtype
    needs = memory_needs(describe(settings.model), device, dtype)
    if (problem := shortage(needs, device, settings.max_sessions)) is not None:
        raise CommandError(problem)


def about_model(settings: Settings) -> ModelAbout:
    """Read from the checkpoint, before its weights; it has the voice asked for. Raises as above."""
    try:
        info = describe(settings.model)
    except CheckpointError as error:
        raise CommandError(str(error)) from error
    if settings.voice and settings.voice not in info.voices:
        choices = ", ".join(info.voices)
        raise CommandError(f"--voice {settings.voice}: there is no such voice; there are {choices}")
    notice = DEMO_NOTICE if settings.model == BUNDLED else None
    return ModelAbout(RANDOM_NOTICE if info.is_random else notice, info.licence)
