"""Both sides of the benchmark over the same weight tensors: the `moshi` package and ours.

The reference attends over its whole rings at any age. Ours is timed with its rings full too: after
the outputs were checked from the first position on, positions are set past every window.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from moshi.models.lm import LMGen
from torch import Tensor

from model.config import ModelConfig
from model.lm_slots import LMSlots
from model.lm_state import initial_column
from model.lm_step import DepformerLoop, LMOutput
from model.mimi import StreamingMimi
from model.modes import prepare_fastest
from model.modules import adopt, meta_lm, meta_mimi
from model.prepared import PlainMaker, prepare
from model.random_weights import RandomWeights
from model.state import Carry, CarryLayout
from model.step import FrameStep
from tests.parity.lm_oracle import first_steps, moshi_model
from tests.parity.moshi_oracle import moshi_mimi

CPU = torch.device("cpu")
AGED_FRAMES = 400
"""Far past the codec's window."""


class Reference:
    """The `moshi` package: a codec and a language model that makes 16 codebooks itself."""

    def __init__(
        self,
        config: ModelConfig,
        weights: RandomWeights,
        device: torch.device = CPU,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        """Shares the language model's tensors on any other device than the CPU."""
        self.lm = moshi_model(weights.lm, config.lm, dtype, device)
        codec = moshi_mimi(config.mimi, adopt(meta_mimi(config), weights.mimi))
        self.mimi = codec.to(device)

    @contextmanager
    def lm_stream(self, rows: int) -> Iterator[LMGen]:
        generator = LMGen(self.lm, use_sampling=False)
        with torch.inference_mode(), generator.streaming(rows):
            yield generator

    @contextmanager
    def codec_stream(self, rows: int) -> Iterator[None]:
        with torch.inference_mode(), self.mimi.streaming(rows):
            yield


def self_talk(generator: LMGen, rows: int, calls: int) -> list[Tensor]:
    """Emitted frames `[B, 17]` of calls 1 to `calls - 1`; both voices are its own."""
    frames = []
    nothing = torch.zeros(rows, 0, 1, dtype=torch.int64, device=generator.lm_model.device)
    for _ in range(calls):
        step = generator.step(nothing)
        if step is not None:
            frames.append(step[..., 0].clone())
    return frames


class OurLM:
    """Ours with `steps` depformer steps, in the fastest form of `dtype` or in the plain one."""

    def __init__(
        self,
        config: ModelConfig,
        weights: RandomWeights,
        rows: int,
        steps: int,
        *,
        dtype: torch.dtype = torch.float32,
        plain: bool = False,
    ) -> None:
        shape = dataclasses.replace(config.lm, dep_q=steps)
        tensors = (
            weights.lm if steps == config.lm.dep_q else first_steps(weights.lm, config.lm, steps)
        )
        self.lm = adopt(meta_lm(shape), {name: kept.to(dtype) for name, kept in tensors.items()})
        self.config = dataclasses.replace(config, lm=shape)
        self.rows = rows
        if plain:
            self.prepared, self.form = prepare(self.lm, PlainMaker(), steps), "plain"
        else:
            self.prepared, self.form = prepare_fastest(self.lm, rows)
        self.slots = LMSlots(self.prepared, self.config, rows)
        self.all = torch.ones(rows, dtype=torch.bool)
        self.none = torch.zeros(rows, dtype=torch.bool)

    def step(self, user: Tensor, positions: list[int]) -> Tensor:
        """Emitted frame `[B, 9]` of user codes `[B, 8]`."""
        output = self.hear(user, positions)
        return torch.cat([output.text[:, None], output.codes], dim=1)

    def hear(self, user: Tensor, positions: list[int]) -> LMOutput:
        """All of a step; commits."""
        output = self.slots.step(range(self.rows), user, self.none, positions)
        self.slots.commit(range(self.rows), self.all)
        return output

    def codebooks(self, hidden: Tensor, decided: Tensor) -> Tensor:
        """Depformer logits `[K, B, card]` after `hidden` `[B, D]`, forced to `decided` `[B, 9]`."""
        loop = DepformerLoop(self.prepared, self.rows)
        projected = self.prepared.depformer_in(hidden)
        return torch.stack([loop.step(k, one, decided[:, k]) for k, one in enumerate(projected)])

    @property
    def known(self) -> Tensor:
        """What was decided for the next position, and which it is."""
        return self.slots.state.integers.old

    def age(self) -> list[int]:
        """Fill the rings: every window is behind us; the positions to step with."""
        position = 2 * self.config.lm.context
        self.slots.state.ring.k.normal_(0, 0.1)
        self.slots.state.ring.v.normal_(0, 0.1)
        column = torch.tensor(initial_column(self.config.lm)).clamp(max=0)
        for slot in range(self.rows):
            self.slots.state.place(slot, column, position)
        return [position] * self.rows


class OurCodec:
    """Ours, streaming `rows` rows."""

    def __init__(self, config: ModelConfig, weights: RandomWeights, rows: int) -> None:
        layout = CarryLayout()
        self.codec = StreamingMimi(adopt(meta_mimi(config), weights.mimi), layout)
        self.state = self.codec.allocate(rows, CPU)
        self.carry = Carry.allocate(layout, rows, CPU)
        self.all = torch.ones(rows, dtype=torch.bool)
        self.frames = 0

    def encode(self, pcm: Tensor) -> Tensor:
        return self.codec.encode(pcm, self.state, self.carry, self.codec.cells(self.frames))

    def decode(self, codes: Tensor) -> Tensor:
        return self.codec.decode(codes, self.state, self.carry, self.codec.cells(self.frames))

    def commit(self) -> None:
        self.state.commit(self.all)
        self.carry.commit(self.all)
        self.frames += 1

    def age(self) -> None:
        self.frames = AGED_FRAMES
        self.state.frames.fill_(AGED_FRAMES)


class OurFrame:
    """The whole frame as served around the language model `ours`: encode, step, decode, commit."""

    def __init__(self, ours: OurLM, weights: RandomWeights) -> None:
        mimi = adopt(meta_mimi(ours.config), weights.mimi)
        self.step = FrameStep(ours.lm, mimi, ours.config, ours.rows, prepared=ours.prepared)
        self.rows, self.all, self.none = ours.rows, ours.all, ours.none
        self.position = 0

    def age(self) -> None:
        """As `OurLM` and `OurCodec` do."""
        self.position = 2 * self.step.config.lm.context
        column = torch.tensor(initial_column(self.step.config.lm)).clamp(max=0)
        for slot in range(self.rows):
            self.step.lm_slots.state.place(slot, column, self.position)
        self.step.codec_state.frames.fill_(AGED_FRAMES)

    def run(self, pcm: Tensor) -> Tensor:
        """`[B, 1920]` to the same."""
        positions = [self.position] * self.rows
        self.position += 1
        output = self.step.step(range(self.rows), pcm, self.none, positions)
        self.step.commit(range(self.rows), self.all)
        return output.pcm
