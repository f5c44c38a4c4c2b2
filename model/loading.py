"""From a checkpoint's name to a running engine: device, dtype, weights, slots, thread."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Literal

import torch

from model.checkpoint.errors import CheckpointError
from model.checkpoint.load import DTYPES, Checkpoint, load_checkpoint
from model.core import PrefillUnavailable, SessionSpec
from model.device import DeviceStepper
from model.engine import ModelFacts, ServingEngine
from model.modes import Quantisation, prepare_fastest
from model.prefill import Prefix
from model.prompt import Prompt, build_prompt
from model.selftest import rows_for, settle_threads
from model.step import FrameStep
from model.tokenizer import TextJoiner

log = logging.getLogger(__name__)

PREFIX_BYTES = {"cuda": 2 << 30, "cpu": 256 << 20}
"""Bound of the prefix cache unless somebody asks for another."""

PersonaPlexEngine = ServingEngine[Prompt, Prefix]


def load_engine(
    name: str = "demo",
    *,
    max_sessions: int = 2,
    device: str = "auto",
    dtype: Literal["float32", "bfloat16"] | None = None,
    quantise: Quantisation | None = None,
    sampling: bool = False,
    prefix_bytes: int | None = None,
) -> PersonaPlexEngine:
    """Load the checkpoint `name` and start its engine; takes seconds to minutes.

    `sampling` admits seeded calls beside greedy ones; `quantise` makes it another model, half the
    size (`model/quantize.py`). Raises `CheckpointError`, whose message is
    one line. The caller owns the engine and ends it with `shutdown`.
    """
    place = pick_device(device)
    torch.set_num_threads(compute_threads())
    checkpoint = load_checkpoint(name, device=place, dtype=DTYPES[dtype] if dtype else None)
    engine = build_engine(
        checkpoint,
        place,
        max_sessions=max_sessions,
        quantise=quantise,
        sampling=sampling,
        prefix_bytes=prefix_bytes,
    )
    engine.start()
    log.info("engine: %s, %s, %d slots", name, engine.stats().mode, max_sessions)
    return engine


def build_engine(
    checkpoint: Checkpoint,
    device: torch.device,
    *,
    max_sessions: int,
    quantise: Quantisation | None = None,
    sampling: bool = False,
    prefix_bytes: int | None = None,
    fixed_rows: bool = False,
    poison: bool = False,
) -> PersonaPlexEngine:
    """An engine over a loaded checkpoint, not started yet."""
    info = checkpoint.info
    stepper = build_stepper(
        checkpoint,
        device,
        max_sessions=max_sessions,
        quantise=quantise,
        sampling=sampling,
        poison=poison,
    )
    return ServingEngine(
        stepper,
        prompt_reader(checkpoint),
        lambda: TextJoiner(checkpoint.tokenizer).push,
        ModelFacts(
            voices=info.voices,
            default_spec=SessionSpec(info.default_voice, info.default_persona),
            context=info.config.lm.context,
        ),
        prefix_bytes=PREFIX_BYTES[device.type] if prefix_bytes is None else prefix_bytes,
        fixed_rows=fixed_rows,
    )


def build_stepper(
    checkpoint: Checkpoint,
    device: torch.device,
    *,
    max_sessions: int,
    quantise: Quantisation | None = None,
    sampling: bool = False,
    poison: bool = False,
) -> DeviceStepper:
    """The slots of a loaded checkpoint in the fastest form that the host computes."""
    rows = rows_for(max_sessions, device)
    prepared, form = prepare_fastest(checkpoint.lm, rows, quantise=quantise)
    step = FrameStep(
        checkpoint.lm,
        checkpoint.mimi,
        checkpoint.info.config,
        rows,
        prepared=prepared,
        sampling=sampling,
    )
    settle_threads(step)
    return DeviceStepper(
        step,
        device,
        slots=max_sessions,
        form=form,
        poison=poison,
    )


def prompt_reader(checkpoint: Checkpoint) -> Callable[[SessionSpec], Prompt]:
    """How a voice and a persona become a prompt; raises `PrefillUnavailable` (contract B6)."""

    def read(spec: SessionSpec) -> Prompt:
        try:
            voice = checkpoint.voices.read(spec.voice)
            tokens = checkpoint.tokenizer.encode_persona(spec.persona)
        except (CheckpointError, OSError) as error:
            raise PrefillUnavailable(str(error)) from error
        return build_prompt(voice, tokens, checkpoint.info.config)

    return read


def pick_device(device: str) -> torch.device:
    """`auto` is a GPU where there is one."""
    if device != "auto":
        return torch.device(device)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def compute_threads() -> int:
    """One core stays free for the transports (contract I2)."""
    return max(1, len(os.sched_getaffinity(0)) - 1)
