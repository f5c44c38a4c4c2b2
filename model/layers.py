"""Parts shared by the temporal transformer and the depformer: norm, rope, gated MLP, windows.

Pure functions on tensors and modules that hold weights only, under the released key names. Knows
nothing of slots, rings or sampling.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.config import AttentionWindow

NORM_EPS = 1e-8
"""Of `rms_norm_f32`, the norm of every Moshi language model."""


def rms_norm(x: Tensor, alpha: Tensor, eps: float = NORM_EPS) -> Tensor:
    """Normalise `x`, `[..., D]`, in fp32 and cast back; `alpha` is `[D]`.

    The scale meets the reciprocal root before `x`, as in the reference: in bf16 the order counts.
    """
    wide = x.float()
    variance = eps + wide.square().mean(-1, keepdim=True)
    return (wide * (alpha.float() * variance.rsqrt())).to(x.dtype)


class RMSNorm(nn.Module):
    """Holds `alpha`, `[1, 1, D]` as released; it may be bf16, the norm upcasts it."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(1, 1, dim))

    def forward(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.alpha.view(-1))


def silu_gate(x: Tensor) -> Tensor:
    """`[..., 2H]` to `[..., H]`: the first half, through SiLU, gates the second."""
    gate, value = x.chunk(2, dim=-1)
    return F.silu(gate) * value


class GatedMLP(nn.Module):
    """SwiGLU without biases: `linear_in` is `[2H, D]`, `linear_out` `[D, H]`."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.linear_in = nn.Linear(dim, 2 * hidden, bias=False)
        self.linear_out = nn.Linear(hidden, dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear_out(silu_gate(self.linear_in(x)))
        return out


class FusedAttention(nn.Module):
    """Holds fused projections: `in_proj_weight` `[S * 3D, D]` (Q, K, V inside each of the S steps).

    `out_proj.weight` is `[S * D, D]`. S is 1 in the temporal transformer, `dep_q` in the depformer.
    """

    def __init__(self, dim: int, steps: int = 1) -> None:
        super().__init__()
        self.in_proj_weight = nn.Parameter(torch.empty(steps * 3 * dim, dim))
        self.out_proj = nn.Linear(dim, steps * dim, bias=False)
        nn.init.kaiming_uniform_(self.in_proj_weight, a=math.sqrt(5))


def split_heads(projected: Tensor, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """`[B, T, 3 * H * D]` to queries, keys and values, each `[B, H, T, D]`."""
    batch, length, _ = projected.shape
    q, k, v = projected.view(batch, length, 3, heads, -1).permute(2, 0, 3, 1, 4)
    return q, k, v


def merge_heads(x: Tensor) -> Tensor:
    """`[B, H, T, D]` to `[B, T, H * D]`."""
    return x.transpose(1, 2).flatten(2)


def attend_one(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Attention of one query a row, `[B, H, 1, D]`, to `[B, H, T, D]`; `mask` is additive.

    On a CPU the fused kernel shares rows out over threads by blocks whose last bit depends on the
    row's place; a call must sound the same in any slot, so fp32 batches take plain products.
    """
    if len(q) == 1 or q.dtype != torch.float32 or not q.is_cpu:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    scores = torch.matmul(q, k.mT) * q.shape[-1] ** -0.5 + mask
    return torch.matmul(scores.softmax(-1), v)


def rope_table(positions: Tensor, head_dim: int, max_period: float) -> tuple[Tensor, Tensor]:
    """Cosine and sine, fp32 `[..., head_dim / 2]`, of absolute positions `[...]`, any integer type.

    Positions never wrap: the angle of position 45,000 (one hour) is still exact enough in fp32.
    """
    pairs = torch.arange(head_dim // 2, device=positions.device, dtype=torch.float32)
    frequencies = torch.exp(pairs * (-math.log(max_period) * 2 / head_dim))
    angles = positions.float()[..., None] * frequencies
    return angles.cos(), angles.sin()


def apply_rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate the interleaved pairs `(2i, 2i + 1)` of `x`, `[..., D]`, in fp32."""
    real, imaginary = x.reshape(*x.shape[:-1], -1, 2).float().unbind(-1)
    turned = (real * cos - imaginary * sin, real * sin + imaginary * cos)
    return torch.stack([part.to(x.dtype) for part in turned], dim=-1).flatten(-2)


def window_size(context: int, rule: AttentionWindow) -> int:
    """How many positions, itself included, a query sees once the ring is full."""
    return context if rule == "moshi" else context - 1


def window_mask(query: Tensor, key: Tensor, window: int) -> Tensor:
    """True where a key is visible: `[..., Tq]` and `[..., Tk]` positions to `[..., Tq, Tk]`.

    A negative key position marks a cell that was never written.
    """
    age = query[..., :, None] - key[..., None, :]
    return (key[..., None, :] >= 0) & (age >= 0) & (age < window)
