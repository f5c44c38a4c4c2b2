"""What a GPU stage steps: a stepper over random weights, filled with calls of a chosen age."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import torch
from torch import nn

from model.config import LMConfig, ModelConfig
from model.core import FRAME_SAMPLES
from model.device import DeviceStepper
from model.lm import LanguageModel
from model.mimi import Mimi
from model.modes import Quantisation, prepare_fastest
from model.modules import meta_lm, meta_mimi
from model.presets import TINY
from model.prompt import Prompt, build_prompt_from_codes
from model.step import FrameStep
from model.stepper import StepInput

Module = TypeVar("Module", bound=nn.Module)
STEPS_SERVED = 8
SPREAD = 0.02
VOICE_TO_PROMPT = 12


class Plant:
    """One device with weights on it; `stepper(slots)` makes the slots."""

    def __init__(self, *, dry: bool) -> None:
        self.dry = dry
        self.device = torch.device("cpu" if dry else "cuda")
        self.dtype = torch.float32 if dry else torch.bfloat16
        base = TINY if dry else ModelConfig()
        self.config = dataclasses.replace(base, lm=dataclasses.replace(base.lm, dep_q=STEPS_SERVED))
        self.batches = [1, 2] if dry else [1, 2, 4, 8, 16, 32, 48, 64]
        self.steps = 3 if dry else 300
        self._lm: LanguageModel | None = None
        self._mimi: Mimi | None = None

    @property
    def lm(self) -> LanguageModel:
        self._lm = self._lm or self._filled(meta_lm(self.config.lm), self.dtype)
        return self._lm

    @property
    def mimi(self) -> Mimi:
        self._mimi = self._mimi or self._filled(meta_mimi(self.config), torch.float32)
        return self._mimi

    def stepper(
        self, slots: int, *, graph: bool = True, quantise: Quantisation | None = None
    ) -> DeviceStepper:
        prepared, form = prepare_fastest(self.lm, slots, quantise=quantise)
        step = FrameStep(self.lm, self.mimi, self.config, slots, prepared=prepared)
        return DeviceStepper(step, self.device, form=form, graph=graph)

    def age(self, step: FrameStep, position: int) -> None:
        """As if every call had come to `position`; the rings hold zeros."""
        column = torch.zeros(self.config.lm.n_q + 1, dtype=torch.int64)
        for slot in range(step.slots):
            step.lm_slots.state.place(slot, column, position)

    def prompt(self, positions: int) -> Prompt:
        generator = torch.Generator().manual_seed(0)
        shape = (8, positions - VOICE_TO_PROMPT)
        codes = torch.randint(self.config.lm.card, shape, generator=generator)
        return build_prompt_from_codes(codes, [], self.config)

    def frames(self, slots: int, position: int) -> StepInput:
        """All slots stepped at `position` with noise."""
        random = np.random.default_rng(0)
        return StepInput(
            pcm=(0.1 * random.standard_normal((slots, FRAME_SAMPLES))).astype(np.float32),
            stepped=np.ones(slots, np.bool_),
            held=np.zeros(slots, np.bool_),
            positions=[position] * slots,
        )

    def synchronise(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def seconds(self, work: Callable[[], object]) -> float:
        """Of one call of `work`, the device's part included."""
        self.synchronise()
        began = time.perf_counter()
        work()
        self.synchronise()
        return time.perf_counter() - began

    @torch.no_grad()
    def _filled(self, module: Module, dtype: torch.dtype) -> Module:
        """Give a module without memory small random numbers, on the device."""
        filled = module.to(dtype).to_empty(device=self.device).requires_grad_(False).eval()
        generator = torch.Generator(self.device).manual_seed(0)
        for name, tensor in filled.state_dict().items():
            if name.endswith(("alpha", "cluster_usage", "norm1.weight", "norm2.weight")):
                tensor.fill_(1.0)
            else:
                tensor.normal_(0, SPREAD, generator=generator)
        return filled


def bytes_read(config: LMConfig, itemsize: int, context: int, calls: int) -> int:
    """By one step: every weight once, every call's keys and values once."""
    layers = config.num_layers * (4 * config.dim**2 + 3 * config.dim * config.hidden)
    depformer = config.depformer_num_layers * (
        4 * config.depformer_dim**2 + 3 * config.depformer_dim * config.depformer_hidden
    )
    heads = config.depformer_dim * (config.card + config.dim)
    weights = layers + config.text_card * config.dim + config.dep_q * (depformer + heads)
    return itemsize * (weights + calls * context * 2 * config.num_layers * config.dim)
