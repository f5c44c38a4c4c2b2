"""SEANet, the convolutional ends of Mimi: PCM to 25 Hz features and back.

Modules hold weights under the released key names (`model.{i}` counts the activations too) and run
whole sequences, differentiably, on `[B, C, T]`. `StreamingSeanet` is either end prepared for one
frame at a time, channels last; what it remembers lies in the carry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch.nn.functional as F
from torch import Tensor, nn

from model.config import SeanetConfig
from model.mimi.conv import CausalConv1d, CausalConvTranspose1d
from model.state import Carry, CarryLayout


class ResidualBlock(nn.Module):
    """`x + conv1(ELU(conv3(ELU(x))))`, narrowed in between."""

    def __init__(self, channels: int, kernel: int, compress: int) -> None:
        super().__init__()
        hidden = channels // compress
        self.block = nn.Sequential(
            nn.ELU(),
            CausalConv1d(channels, hidden, kernel),
            nn.ELU(),
            CausalConv1d(hidden, channels, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.block(x)
        return out


class SeanetEncoder(nn.Module):
    """PCM `[B, 1, T]` to features `[B, dimension, T / 960]`."""

    def __init__(self, config: SeanetConfig) -> None:
        super().__init__()
        width = config.n_filters
        layers: list[nn.Module] = [CausalConv1d(1, width, config.kernel_size)]
        for ratio in reversed(config.ratios):
            layers += [
                ResidualBlock(width, config.residual_kernel_size, config.compress),
                nn.ELU(),
                CausalConv1d(width, 2 * width, 2 * ratio, ratio),
            ]
            width *= 2
        layers += [nn.ELU(), CausalConv1d(width, config.dimension, config.last_kernel_size)]
        self.model = nn.Sequential(*layers)

    def forward(self, pcm: Tensor) -> Tensor:
        out: Tensor = self.model(pcm)
        return out


class SeanetDecoder(nn.Module):
    """Features `[B, dimension, T]` to PCM `[B, 1, T * 960]`, neither clamped nor squashed."""

    def __init__(self, config: SeanetConfig) -> None:
        super().__init__()
        width = config.n_filters * 2 ** len(config.ratios)
        layers: list[nn.Module] = [CausalConv1d(config.dimension, width, config.kernel_size)]
        for ratio in config.ratios:
            layers += [
                nn.ELU(),
                CausalConvTranspose1d(width, width // 2, ratio),
                ResidualBlock(width // 2, config.residual_kernel_size, config.compress),
            ]
            width //= 2
        layers += [nn.ELU(), CausalConv1d(width, 1, config.last_kernel_size)]
        self.model = nn.Sequential(*layers)

    def forward(self, features: Tensor) -> Tensor:
        out: Tensor = self.model(features)
        return out


Step = Callable[[Tensor, Carry], Tensor]


class StreamingSeanet:
    """A chain of prepared layers, `[B, T, C]` in and out."""

    def __init__(self, layers: Iterable[nn.Module], layout: CarryLayout) -> None:
        self.steps = [_prepare(layer, layout) for layer in layers]

    def __call__(self, x: Tensor, carry: Carry) -> Tensor:
        for step in self.steps:
            x = step(x, carry)
        return x


class StreamingResidual:
    """A `ResidualBlock` of one frame."""

    def __init__(self, block: ResidualBlock, layout: CarryLayout) -> None:
        self.inner = StreamingSeanet(list(block.block)[1:], layout)

    def __call__(self, x: Tensor, carry: Carry) -> Tensor:
        return self.inner(F.elu(x), carry).add_(x)


def _elu(x: Tensor, carry: Carry) -> Tensor:
    return F.elu(x)


def _prepare(layer: nn.Module, layout: CarryLayout) -> Step:
    match layer:
        case CausalConv1d() | CausalConvTranspose1d():
            return layer.prepare(layout)
        case ResidualBlock():
            return StreamingResidual(layer, layout)
        case nn.ELU():
            return _elu
        case _:
            raise TypeError(f"SEANet has no layer {type(layer).__name__}")
