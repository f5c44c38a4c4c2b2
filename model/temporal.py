"""The temporal transformer: one position per 80 ms frame, causal, windowed, rope.

Weights under the released names and a differentiable pass over whole sequences. Streaming over a
ring of keys and values is in `model/streaming.py`; nothing here holds state.
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


class TemporalLayer(nn.Module):
    """Pre-norm attention and SwiGLU; both residuals are added in the model's dtype."""

    def __init__(self, config: LMConfig) -> None:
        super().__init__()
        self.heads = config.num_heads
        self.self_attn = FusedAttention(config.dim)
        self.norm1 = RMSNorm(config.dim)
        self.norm2 = RMSNorm(config.dim)
        self.gating = GatedMLP(config.dim, config.hidden)

    def forward(self, x: Tensor, rope: tuple[Tensor, Tensor], mask: Tensor) -> Tensor:
        projected = F.linear(self.norm1(x), self.self_attn.in_proj_weight)
        q, k, v = split_heads(projected, self.heads)
        attended = F.scaled_dot_product_attention(
            apply_rope(q, *rope), apply_rope(k, *rope), v, attn_mask=mask
        )
        x = x + self.self_attn.out_proj(merge_heads(attended))
        out: Tensor = x + self.gating(self.norm2(x))
        return out


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
