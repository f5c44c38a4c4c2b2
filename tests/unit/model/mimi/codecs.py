"""Small random codecs, and a stepper that plays the engine's part: stage, then commit."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from model.config import (
    AttentionWindow,
    CodecTransformerConfig,
    MimiConfig,
    QuantizerConfig,
    SeanetConfig,
)
from model.core import FRAME_SAMPLES
from model.mimi import Mimi, MimiState, StreamingMimi
from model.state import Carry, CarryLayout

SMALL = MimiConfig(
    seanet=SeanetConfig(dimension=64, n_filters=8),
    transformer=CodecTransformerConfig(
        d_model=64, num_heads=4, num_layers=2, context=20, dim_feedforward=128
    ),
    quantizer=QuantizerConfig(dimension=32, n_q=12, bins=64),
)
"""The window of 10 frames is passed soon."""

LOUDNESS = 0.3
"""Standard deviation of the noise that plays speech."""


def with_context(config: MimiConfig, context: int) -> MimiConfig:
    return replace(config, transformer=replace(config.transformer, context=context))


@torch.no_grad()
def random_mimi(config: MimiConfig, rule: AttentionWindow, seed: int) -> Mimi:
    """Weights under which a wrong window or a lost tail shows; the sound's peaks are about 1."""
    mimi = Mimi(config, rule).eval()
    generator = torch.Generator().manual_seed(seed)
    for name, tensor in mimi.state_dict().items():
        noise = torch.randn(tensor.shape, generator=generator)
        tensor.copy_(_drawn(name, noise))
    out = mimi.decoder.model[-1].inner
    out.weight.mul_(0.03)
    out.bias.mul_(0.03)
    return mimi


def _drawn(name: str, noise: Tensor) -> Tensor:
    if name.endswith("cluster_usage"):
        return 0.5 + noise.abs()
    if name.endswith("scale"):
        return 0.3 + 0.05 * noise
    if "norm" in name and name.endswith("weight"):
        return 1 + 0.1 * noise
    if name.endswith("bias"):
        return 0.1 * noise
    if name.endswith(("embedding_sum", "_initialized")):
        return noise
    return noise * 1.5 / noise[0].numel() ** 0.5


def noise_frames(frames: int, rows: int, seed: int) -> Tensor:
    """PCM `[frames, rows, 1, 1920]`."""
    generator = torch.Generator().manual_seed(seed)
    return LOUDNESS * torch.randn((frames, rows, 1, FRAME_SAMPLES), generator=generator)


@dataclass
class Stepper:
    """A codec with its state over some rows; every row is committed unless said otherwise."""

    codec: StreamingMimi
    state: MimiState
    carry: Carry

    @classmethod
    def of(cls, mimi: Mimi, rows: int) -> Stepper:
        layout = CarryLayout()
        codec = StreamingMimi(mimi, layout)
        cpu = torch.device("cpu")
        return cls(codec, codec.allocate(rows, cpu), Carry.allocate(layout, rows, cpu))

    def rows(self, start: int, stop: int) -> Stepper:
        return Stepper(self.codec, self.state.rows(start, stop), self.carry.rows(start, stop))

    def stage(self, pcm: Tensor, cells: int | None = None) -> tuple[Tensor, Tensor]:
        """Codes `[B, K]` and PCM `[B, 1920]` of one frame, nothing committed."""
        cells = cells or self.codec.capacity
        codes = self.codec.encode(pcm, self.state, self.carry, cells)
        return codes, self.codec.decode(codes, self.state, self.carry, cells)

    def commit(self, stepped: Tensor | None = None) -> None:
        if stepped is None:
            stepped = torch.ones(len(self.state.frames), dtype=torch.bool)
        self.carry.commit(stepped)
        self.state.commit(stepped)

    def step(self, pcm: Tensor, stepped: Tensor | None = None) -> tuple[Tensor, Tensor]:
        out = self.stage(pcm)
        self.commit(stepped)
        return out

    def run(self, frames: Tensor) -> tuple[Tensor, Tensor]:
        """PCM `[F, B, 1, 1920]` to codes `[F, B, K]` and PCM `[F, B, 1920]`."""
        codes, pcm = zip(*[self.step(frame) for frame in frames], strict=True)
        return torch.stack(codes), torch.stack(pcm)

    def reset(self, slot: int) -> None:
        self.state.reset(slot)
        self.carry.reset(slot)
