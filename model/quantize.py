"""Weight-only int8 for the temporal transformer: half the memory of bf16, and another model.

Each output row has a scale of its own and activations are never quantised, so a call's result does
not depend on its neighbours. What it costs in agreement is a matter of measurement (Gate C), never
called identical. The modules are swapped in place, so that prefill and step share one copy; the
depformer, embeddings and heads stay as they were.
"""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.layers import FusedAttention, GatedMLP, rms_norm
from model.lm import LanguageModel
from model.prepared import PreparedLayer, Project
from model.temporal import TemporalLayer

LEVELS = 127
VECTOR = 32
"""Values that the fused product may take at once, at most."""
PROBE_ROWS = 5
"""Kernels take rows by fours, and the rest by another way."""
PROBE_ERROR = 0.01
"""Of a result and of its usual size; bf16 rounds by 0.004."""


def quantise(weight: Tensor) -> tuple[Tensor, Tensor]:
    """`[O, D]` to int8 `[O, D]` and its scales `[O]`, symmetric about zero."""
    wide = weight.float()
    scale = (wide.abs().amax(1) / LEVELS).clamp(min=torch.finfo(torch.float32).tiny)
    levels = (wide / scale[:, None]).round().clamp(-LEVELS, LEVELS)
    return levels.to(torch.int8), scale.to(weight.dtype)


class Int8Linear(nn.Module):
    """A quantised matrix `[O, D]`; takes `[..., D]` in the dtype that the matrix had."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        levels, scale = quantise(weight.detach())
        self.levels = nn.Buffer(levels)
        self.scale = nn.Buffer(scale)
        self.fused = weight.dtype == torch.bfloat16 and self._fuses()

    @property
    def weight(self) -> Tensor:
        """The matrix as it is after quantisation, made anew at every use."""
        return self.levels.to(self.scale.dtype) * self.scale[:, None]

    def forward(self, x: Tensor) -> Tensor:
        if self.fused and x.dim() == 2:
            return torch._weight_int8pack_mm(x, self.levels, self.scale)
        return F.linear(x, self.levels.to(x.dtype)) * self.scale

    def _fuses(self) -> bool:
        """Whether this device multiplies int8 weights without unpacking them first, and rightly.

        Rows that are no whole number of its vectors it reads past their end, unchecked.
        """
        inputs = self.levels.shape[1]
        if inputs % VECTOR:
            return False
        random = torch.Generator().manual_seed(0)  # the caller's sequence goes on undisturbed
        drawn = torch.randn(PROBE_ROWS, inputs, generator=random)
        probe = drawn.to(self.levels.device, self.scale.dtype)
        try:
            product = torch._weight_int8pack_mm(probe, self.levels, self.scale)
        except (NotImplementedError, RuntimeError):
            return False
        return is_right(product, probe, self.levels.float() * self.scale.float()[:, None])


def is_right(product: Tensor, x: Tensor, weight: Tensor) -> bool:
    """Whether `product` `[R, O]` is `x` times `weight`, rounding apart.

    The bound is of the result and of its terms' root sum of squares: a sum that nearly cancels is
    small, its error is not; and the sum of their magnitudes would let wrong results pass.
    """
    exact = x.float() @ weight.T
    bound = PROBE_ERROR * (exact.abs() + weight.norm(dim=1))
    return product.shape == exact.shape and bool(((product - exact).abs() <= bound).all())


class Int8Attention(nn.Module):
    """Stands in for a `FusedAttention` of one step."""

    def __init__(self, attention: FusedAttention) -> None:
        super().__init__()
        self.in_proj = Int8Linear(attention.in_proj_weight)
        self.out_proj = Int8Linear(attention.out_proj.weight)

    @property
    def in_proj_weight(self) -> Tensor:
        return self.in_proj.weight


def quantise_layers(lm: LanguageModel) -> tuple[PreparedLayer, ...]:
    """Swap the matrices of `lm`'s temporal layers for int8 ones; returns them prepared."""
    return tuple(_quantise_layer(cast(TemporalLayer, layer)) for layer in lm.transformer.layers)


def _quantise_layer(layer: TemporalLayer) -> PreparedLayer:
    attention, gating = Int8Attention(layer.self_attn), cast(nn.Module, layer.gating)
    layer.self_attn = cast(FusedAttention, attention)
    for name in ("linear_in", "linear_out"):
        setattr(gating, name, Int8Linear(cast(Tensor, getattr(gating, name).weight)))
    up, down = (cast(GatedMLP, gating).linear_in, cast(GatedMLP, gating).linear_out)
    norm1, norm2 = (norm.alpha.detach().view(-1) for norm in (layer.norm1, layer.norm2))
    return PreparedLayer(
        qkv=_normed(norm1, attention.in_proj),
        out=attention.out_proj,
        up=_normed(norm2, up),
        down=down,
    )


def _normed(alpha: Tensor, product: Project) -> Project:
    return lambda x: product(rms_norm(x, alpha))
