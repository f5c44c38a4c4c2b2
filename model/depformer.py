"""The depformer: within one position, audio codebook after codebook, each with weights of its own.

Weights under the released names and a differentiable, teacher-forced pass over many positions. The
free-running loop of a live step is in `model/lm_step.py`.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.config import LMConfig
from model.layers import FusedAttention, GatedMLP, RMSNorm, merge_heads, split_heads


def per_step(x: Tensor, fused: Tensor, steps: int) -> Tensor:
    """`[N, K, D]` to `[N, K, O]`: step k has its own block of `fused`, `[steps * O, D]`."""
    blocks = fused.view(steps, -1, fused.shape[1])
    return torch.stack([F.linear(x[:, k], blocks[k]) for k in range(x.shape[1])], dim=1)


class DepformerLayer(nn.Module):
    """Attention and MLP weights differ from step to step, the two norms do not."""

    def __init__(self, config: LMConfig) -> None:
        super().__init__()
        dim = config.depformer_dim
        self.heads, self.steps = config.depformer_num_heads, config.dep_q
        self.self_attn = FusedAttention(dim, self.steps)
        self.norm1 = RMSNorm(dim)
        self.norm2 = RMSNorm(dim)
        self.gating = nn.ModuleList(
            GatedMLP(dim, config.depformer_hidden) for _ in range(self.steps)
        )

    def forward(self, x: Tensor) -> Tensor:
        """`[N, K, D]`: step k attends to steps 0 to k, without rope and without a window."""
        projected = per_step(self.norm1(x), self.self_attn.in_proj_weight, self.steps)
        attended = F.scaled_dot_product_attention(
            *split_heads(projected, self.heads), is_causal=True
        )
        x = x + per_step(merge_heads(attended), self.self_attn.out_proj.weight, self.steps)
        normed = self.norm2(x)
        gated = [self.gating[k](normed[:, k]) for k in range(x.shape[1])]
        return x + torch.stack(gated, dim=1)


class DepformerTransformer(nn.Module):
    """`layers.{j}` of the released file; there is no norm behind the last layer."""

    def __init__(self, config: LMConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            DepformerLayer(config) for _ in range(config.depformer_num_layers)
        )

    def forward(self, x: Tensor) -> Tensor:
        """`[N, K, D]` of N independent positions, K of at most `dep_q` steps."""
        for layer in self.layers:
            x = layer(x)
        return x
