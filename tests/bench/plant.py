"""What a GPU stage steps: a stepper over random weights, filled with calls of a chosen age."""

from __future__ import annotations

import dataclasses
import gc
import math
import time
import weakref
from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np
import torch
from torch import nn

from model.config import LMConfig, ModelConfig
from model.core import AGENT_CODEBOOKS, FRAME_SAMPLES
from model.device import DeviceStepper
from model.lm import LanguageModel
from model.mimi import Mimi
from model.modes import Quantisation, prepare_fastest
from model.modules import meta_lm, meta_mimi
from model.presets import TINY
from model.prompt import SILENCE_FRAMES, Prompt, build_prompt_from_codes
from model.step import FrameStep
from model.stepper import StepInput

Module = TypeVar("Module", bound=nn.Module)
SPREAD = 0.02
ONES = ("alpha", "cluster_usage", "_initialized", "norm1.weight", "norm2.weight")


class Plant:
    """One device with weights on it; `stepper(slots)` makes the slots, one stepper at a time.

    A stage has `seconds`; once they are `spent` it writes what it has and stops.
    """

    def __init__(
        self, *, dry: bool, seconds: float = math.inf, depformer_steps: int = AGENT_CODEBOOKS
    ) -> None:
        self.dry, self._ends = dry, time.monotonic() + seconds
        self.device = torch.device("cpu" if dry else "cuda")
        self.dtype = torch.float32 if dry else torch.bfloat16
        base = TINY if dry else ModelConfig()
        self.config = dataclasses.replace(
            base, lm=dataclasses.replace(base.lm, dep_q=depformer_steps)
        )
        self.batches = [1, 2] if dry else [1, 2, 4, 8, 16, 32, 48, 64]
        self.steps = 3 if dry else 200
        self._lm: LanguageModel | None = None
        self._mimi: Mimi | None = None
        self._last: Callable[[], FrameStep | None] = lambda: None

    @property
    def spent(self) -> bool:
        return time.monotonic() > self._ends

    @property
    def lm(self) -> LanguageModel:
        self._lm = self._lm or self._filled(meta_lm(self.config.lm), self.dtype)
        return self._lm

    @property
    def mimi(self) -> Mimi:
        self._mimi = self._mimi or self._filled(meta_mimi(self.config), torch.float32)
        return self._mimi

    def whole(self) -> Plant:
        """The same with all sixteen depformer steps; the rest of the time is its."""
        steps = (TINY if self.dry else ModelConfig()).lm.dep_q
        left = self._ends - time.monotonic()
        return Plant(dry=self.dry, seconds=left, depformer_steps=steps)

    def stepper(
        self,
        slots: int,
        *,
        steps: int = AGENT_CODEBOOKS,
        graph: bool = True,
        cut: bool | None = None,
        quantise: Quantisation | None = None,
        kv_dtype: torch.dtype | None = None,
    ) -> DeviceStepper:
        """As it is served, save for what is asked otherwise.

        Raises `torch.OutOfMemoryError` where it does not fit, else as `clear`.
        """
        self.clear()
        prepared, form = prepare_fastest(self.lm, slots, steps=steps, quantise=quantise)
        step = FrameStep(
            self.lm, self.mimi, self.config, slots, prepared=prepared, kv_dtype=kv_dtype
        )
        self._last = weakref.ref(step)
        return DeviceStepper(step, self.device, form=form, graph=graph, cut=cut)

    def largest(self, batches: Iterable[int]) -> DeviceStepper:
        """Of the first of `batches` that fits."""
        for batch in batches:
            try:
                return self.stepper(batch)
            except torch.OutOfMemoryError:
                continue
        raise torch.OutOfMemoryError("not even the smallest batch fits")

    def clear(self) -> None:
        """Give back what the last stepper held, and measure the next one's peak anew.

        Raises `RuntimeError` where somebody holds it still: the next would find no room.
        """
        gc.collect()
        if self._last() is not None:
            raise RuntimeError("the last stepper is still held; let go of it first")
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()

    def age(self, step: FrameStep, position: int) -> None:
        """As if every call had come to `position`; the rings hold zeros."""
        column = torch.zeros(self.config.lm.n_q + 1, dtype=torch.int64)
        for slot in range(step.slots):
            step.lm_slots.state.place(slot, column, position)

    def prompt(self, positions: int) -> Prompt:
        generator = torch.Generator().manual_seed(0)
        shape = (AGENT_CODEBOOKS, positions - 2 * SILENCE_FRAMES)
        codes = torch.randint(self.config.lm.card, shape, generator=generator)
        return build_prompt_from_codes(codes, [], self.config)

    def frames(self, slots: int, position: int) -> StepInput:
        """All slots stepped at `position` with noise."""
        random = np.random.default_rng(position)
        return StepInput(
            pcm=(0.1 * random.standard_normal((slots, FRAME_SAMPLES))).astype(np.float32),
            stepped=np.ones(slots, np.bool_),
            held=np.zeros(slots, np.bool_),
            positions=[position] * slots,
        )

    def seconds(self, work: Callable[[], object]) -> float:
        """Of one call of `work`, the device's part included."""
        self._synchronise()
        began = time.perf_counter()
        work()
        self._synchronise()
        return time.perf_counter() - began

    def timed(self, work: Callable[[], object], count: int) -> dict[str, float]:
        """Milliseconds of `count` calls, fewer where the stage's time is spent before."""
        work()
        taken = [self.seconds(work)]
        while len(taken) < count and not self.spent:
            taken.append(self.seconds(work))
        return percentiles(taken)

    def timed_steps(self, stepper: DeviceStepper, position: int, count: int) -> dict[str, float]:
        """Of steps of all slots at one age."""
        self.age(stepper.frame_step, position)
        frames, rows = self.frames(stepper.rows, position), range(stepper.rows)
        return self.timed(lambda: stepper.step(rows, frames), count)

    def _synchronise(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    @torch.no_grad()
    def _filled(self, module: Module, dtype: torch.dtype) -> Module:
        """Give a module without memory small random numbers, on the device."""
        filled = module.to(dtype).to_empty(device=self.device).requires_grad_(False).eval()
        generator = torch.Generator(self.device).manual_seed(0)
        for name, tensor in filled.state_dict().items():
            if name.endswith(ONES):
                tensor.fill_(1.0)
            else:
                tensor.normal_(0, SPREAD, generator=generator)
        return filled


def percentiles(seconds: list[float]) -> dict[str, float]:
    p50, p99, most = np.percentile(seconds, [50, 99, 100]) * 1000
    return {"p50_ms": float(p50), "p99_ms": float(p99), "max_ms": float(most)}


def bytes_read(config: LMConfig, itemsize: int, context: int, calls: int) -> int:
    """By one step: every weight once, every call's keys and values once."""
    layers = config.num_layers * (4 * config.dim**2 + 3 * config.dim * config.hidden)
    depformer = config.depformer_num_layers * (
        4 * config.depformer_dim**2 + 3 * config.depformer_dim * config.depformer_hidden
    )
    heads = config.depformer_dim * (config.card + config.dim)
    weights = layers + config.text_card * config.dim + config.dep_q * (depformer + heads)
    return itemsize * (weights + calls * context * 2 * config.num_layers * config.dim)
