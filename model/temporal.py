"""The temporal transformer: one position per 80 ms frame, causal, windowed, rope.

Weights under the released names and a differentiable pass over whole sequences. Streaming over a
ring of keys and values is in `model/lm_step.py`; nothing here holds state.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.config import LMConfig
from model.layers import (
    FusedAttention,
    GatedMLP,
    RMSNorm,
    apply_rope,
    merge_heads,
    rope_table,
    split_heads,
    window_mask,
)

Rope = tuple[Tensor, Tensor]
"""Cosine and sine of `rope_table`."""


class TemporalLayer(nn.Module):
    """Pre-norm attention and SwiGLU; both residuals are added in the model's dtype."""

    def __init__(self, config: LMConfig) -> None:
        super().__init__()
        self.heads = config.num_heads
        self.self_attn = FusedAttention(config.dim)
        self.norm1 = RMSNorm(config.dim)
        self.norm2 = RMSNorm(config.dim)
        self.gating = GatedMLP(config.dim, config.hidden)

    def project(self, x: Tensor, rope: Rope) -> tuple[Tensor, Tensor, Tensor]:
        """`[B, T, D]` to turned queries and keys, and values, each `[B, H, T, head_dim]`."""
        projected = F.linear(self.norm1(x), self.self_attn.in_proj_weight)
        q, k, v = split_heads(projected, self.heads)
        return apply_rope(q, *rope), apply_rope(k, *rope), v

    def combine(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        """Attend from `q` to all of `k` and `v`, then the MLP; returns the new `[B, T, D]`."""
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.self_attn.out_proj(merge_heads(attended))
        out: Tensor = x + self.gating(self.norm2(x))
        return out

    def forward(self, x: Tensor, rope: Rope, mask: Tensor) -> Tensor:
        return self.combine(x, *self.project(x, rope), mask)


class TemporalTransformer(nn.Module):
    """`layers.{i}` of the released file; the norm behind it is `LanguageModel.out_norm`."""

    def __init__(self, config: LMConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(TemporalLayer(config) for _ in range(config.num_layers))

    def forward(self, x: Tensor, window: int) -> Tensor:
        """Run positions 0 to T-1 of `x`, `[B, T, D]`, at once; each sees `window` positions."""
        config = self.config
        positions = torch.arange(x.shape[1], device=x.device)
        mask = window_mask(positions, positions, window)
        rope = rope_table(positions, config.dim // config.num_heads, config.max_period)
        for layer in self.layers:
            x = layer(x, rope, mask)
        return x
