"""What a checkpoint asks of a device: the memory it will take, and the time of a step.

Only `time_steps` loads weights. What the figures mean is said by `agent/doctor.py`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import ceil

import numpy as np
import torch

from model.checkpoint.load import DTYPES, CheckpointInfo, load_checkpoint
from model.config import ModelConfig
from model.core import FRAME_SAMPLES, SessionSpec
from model.host import Device
from model.lm_state import round_cells
from model.loading import compute_threads, pick_device
from model.offline import OfflineBatch

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
    """Load the checkpoint and time steps of `sessions` live sessions with its default prompt.

    Raises `CheckpointError`, `EngineError`.
    """
    torch.set_num_threads(compute_threads())
    began = time.perf_counter()
    checkpoint = load_checkpoint(
        info.name, device=pick_device(device), dtype=DTYPES[dtype] if dtype else None
    )
    load_s = time.perf_counter() - began
    spec = SessionSpec(info.default_voice, info.default_persona)
    batch = OfflineBatch(checkpoint, [spec] * sessions)
    taken = sorted(_timed_steps(batch))
    return StepTimes(
        sessions=sessions,
        steps=len(taken),
        load_s=load_s,
        p50_s=taken[len(taken) // 2],
        p99_s=taken[ceil(0.99 * len(taken)) - 1],
        max_s=taken[-1],
    )


def _timed_steps(batch: OfflineBatch) -> list[float]:
    silence = np.zeros((batch.rows, FRAME_SAMPLES), np.float32)
    live = np.ones(batch.rows, np.bool_)
    taken = []
    for _ in range(WARMUP_STEPS + TIMED_STEPS):
        began = time.perf_counter()
        batch.step(silence, live)
        taken.append(time.perf_counter() - began)
    return taken[WARMUP_STEPS:]
