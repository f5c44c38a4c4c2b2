"""Mimi's two transformers at 25 positions a second, two positions a frame.

Pre-norm layers with LayerScale, interleaved rope, exact GELU and a sliding window. The module holds
weights under the released key names and runs whole sequences, differentiably.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.config import AttentionWindow, CodecTransformerConfig

POSITIONS_PER_FRAME = 2
NORM_EPS = 1e-5


def window_of(context: int, rule: AttentionWindow) -> int:
    """Positions in view, counted back from the last position of the frame being computed.

    The `personaplex` rule gives one fewer: once its ring is full, the cell that will be written
    next is out of view.
    """
    return context if rule == "moshi" else context - 1


def visible(query: Tensor, key: Tensor, window: int) -> Tensor:
    """Whether each query position sees each key position, by broadcasting; bool.

    The window is counted from the end of the query's frame, not from the query: both positions of
    a frame are written before either attends, so the first of them sees one key fewer.
    """
    last = query + (POSITIONS_PER_FRAME - 1 - query % POSITIONS_PER_FRAME)
    return (key >= 0) & (key <= query) & (key > last - window)


def rope_table(positions: Tensor, head_dim: int, max_period: float) -> tuple[Tensor, Tensor]:
    """Cosine and sine, `[..., head_dim / 2]`, of absolute `positions`, in float32."""
    index = torch.arange(head_dim // 2, device=positions.device, dtype=torch.float32)
    frequency = torch.exp(index * (-math.log(max_period) * 2 / head_dim))
    angle = frequency * positions[..., None].float()
    return torch.cos(angle), torch.sin(angle)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn the interleaved pairs (2i, 2i + 1) of `x`, `[..., D]`."""
    real, imag = x.view(*x.shape[:-1], -1, 2).unbind(-1)
    return torch.stack((real * cos - imag * sin, real * sin + imag * cos), -1).flatten(-2)


class LayerScale(nn.Module):
    """A learned gain for each channel of a residual branch."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((dim,), 0.01))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * x


class SelfAttention(nn.Module):
    """Projections only. Rows of `in_proj_weight` are Q, K, V; inside each, heads outermost."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.in_proj_weight = nn.Parameter(torch.empty(3 * dim, dim))
        nn.init.xavier_uniform_(self.in_proj_weight)
        self.out_proj = nn.Linear(dim, dim, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        """`[B, T, D]` to the same; `cos`, `sin` `[T, D / heads / 2]`, `mask` `[T, T]`."""
        qkv = F.linear(x, self.in_proj_weight).view(*x.shape[:2], 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        attended = F.scaled_dot_product_attention(q, k, v, mask)
        out: Tensor = self.out_proj(attended.transpose(1, 2).flatten(2))
        return out


class CodecLayer(nn.Module):
    """Attention and a GELU MLP, each behind a LayerNorm and in front of a LayerScale."""

    def __init__(self, config: CodecTransformerConfig) -> None:
        super().__init__()
        dim = config.d_model
        self.self_attn = SelfAttention(dim, config.num_heads)
        self.norm1 = nn.LayerNorm(dim, eps=NORM_EPS)
        self.norm2 = nn.LayerNorm(dim, eps=NORM_EPS)
        self.linear1 = nn.Linear(dim, config.dim_feedforward, bias=False)
        self.linear2 = nn.Linear(config.dim_feedforward, dim, bias=False)
        self.layer_scale_1 = LayerScale(dim)
        self.layer_scale_2 = LayerScale(dim)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        x = x + self.layer_scale_1(self.self_attn(self.norm1(x), cos, sin, mask))
        hidden = F.gelu(self.linear1(self.norm2(x)))
        out: Tensor = x + self.layer_scale_2(self.linear2(hidden))
        return out


class CodecTransformer(nn.Module):
    """Released keys `transformer.layers.{i}.*`. There is no norm after the last layer."""

    def __init__(self, config: CodecTransformerConfig, rule: AttentionWindow) -> None:
        super().__init__()
        self.config = config
        self.window = window_of(config.context, rule)
        layers = nn.ModuleList(CodecLayer(config) for _ in range(config.num_layers))
        self.transformer = nn.ModuleDict({"layers": layers})

    @property
    def layers(self) -> list[CodecLayer]:
        return [m for m in self.modules() if isinstance(m, CodecLayer)]

    def forward(self, x: Tensor) -> Tensor:
        """A sequence from position 0, `[B, D, T]` to the same."""
        positions = torch.arange(x.shape[-1], device=x.device)
        head_dim = self.config.d_model // self.config.num_heads
        cos, sin = rope_table(positions, head_dim, self.config.max_period)
        mask = visible(positions[:, None], positions, self.window)
        x = x.transpose(1, 2)
        for layer in self.layers:
            x = layer(x, cos, sin, mask)
        return x.transpose(1, 2)
