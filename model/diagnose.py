"""What a checkpoint asks of a device: the memory it will take, and the time of a step.

Only `time_steps` loads weights. What the figures mean is said by `agent/doctor.py`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import ceil

import numpy as np
import torch

from model.checkpoint.load import DTYPES, Checkpoint, CheckpointInfo, load_checkpoint
from model.config import ModelConfig
from model.core import FRAME_SAMPLES, SessionSpec
from model.device import DeviceStepper
from model.host import Device
from model.lm_state import round_cells
from model.loading import build_stepper, compute_threads, pick_device, prompt_reader
from model.prefill import Prefix, prefill
from model.stepper import StepInput

TIMED_STEPS = 50
WARMUP_STEPS = 5


@dataclass(frozen=True)
class Needs:
    """Memory on the device."""

    weight_bytes: int
    session_bytes: int
    """KV rings of one session: temporal transformer and codec."""
    sessions_that_fit: int


@dataclass(frozen=True)
class StepTimes:
    """Seconds of timed steps with all sessions live."""

    mode: str
    """What serving would run: device, dtype, form."""
    sessions: int
    steps: int
    load_s: float
    p50_s: float
    p99_s: float
    max_s: float


def memory_needs(info: CheckpointInfo, device: Device, dtype: str | None) -> Needs:
    """What `info` will take, worked out from its shapes alone."""
    chosen = DTYPES[dtype] if dtype else info.dtype
    weights = info.weight_bytes(chosen)
    session = session_bytes(info.config, chosen)
    return Needs(weights, session, max(0, (device.free_bytes - weights) // session))


def session_bytes(config: ModelConfig, dtype: torch.dtype) -> int:
    """KV rings of one slot: keys and values of the temporal transformer and of both codec ones."""
    lm, codec = config.lm, config.mimi.transformer
    temporal = 2 * lm.num_layers * round_cells(lm.context) * lm.dim * dtype.itemsize
    cells = round_cells(codec.context)
    mimi = 2 * 2 * codec.num_layers * cells * codec.d_model * torch.float32.itemsize
    return temporal + mimi


def time_steps(info: CheckpointInfo, sessions: int, device: str, dtype: str | None) -> StepTimes:
    """Load the checkpoint and time the step that serving runs, with `sessions` live sessions.

    Each has the default voice and persona. Raises `CheckpointError`, `EngineError`.
    """
    torch.set_num_threads(compute_threads())
    place = pick_device(device)
    began = time.perf_counter()
    checkpoint = load_checkpoint(info.name, device=place, dtype=DTYPES[dtype] if dtype else None)
    stepper = build_stepper(checkpoint, place, max_sessions=sessions)
    load_s = time.perf_counter() - began
    prefix = _default_prefix(checkpoint)
    for slot in range(sessions):
        stepper.admit(slot, prefix, None)
    taken = sorted(_timed_steps(stepper, prefix.positions))
    return StepTimes(
        mode=stepper.mode,
        sessions=sessions,
        steps=len(taken),
        load_s=load_s,
        p50_s=taken[len(taken) // 2],
        p99_s=taken[ceil(0.99 * len(taken)) - 1],
        max_s=taken[-1],
    )


def _default_prefix(checkpoint: Checkpoint) -> Prefix:
    info = checkpoint.info
    spec = SessionSpec(info.default_voice, info.default_persona)
    return prefill(checkpoint.lm, info.config, prompt_reader(checkpoint)(spec))


def _timed_steps(stepper: DeviceStepper, start: int) -> list[float]:
    """Seconds of each step after the first few; silence comes in, all slots are live."""
    rows = stepper.rows
    taken: list[float] = []
    live = np.arange(rows) < stepper.slots
    for number in range(WARMUP_STEPS + TIMED_STEPS):
        frames = StepInput(
            pcm=np.zeros((rows, FRAME_SAMPLES), np.float32),
            stepped=live,
            held=np.zeros(rows, np.bool_),
            positions=[start + number if row else 0 for row in live],
        )
        began = time.perf_counter()
        stepper.step(range(rows), frames)
        taken.append(time.perf_counter() - began)
    return taken[WARMUP_STEPS:]
