"""Mimi's two transformers at 25 positions a second, two positions a frame.

Pre-norm layers with LayerScale, interleaved rope, exact GELU and a sliding window. The modules hold
weights under the released key names and run whole sequences, differentiably. `StreamingTransformer`
is one prepared for a frame at a time, over a KV ring: rope, mask and cells are worked out once a
frame (`FrameView`) and shared by the layers. It takes positions as given and commits nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.config import AttentionWindow, CodecTransformerConfig
from model.mimi.conv import gemm_operand
from model.state import KVRing

POSITIONS_PER_FRAME = 2
CELL_BLOCK = 64
"""KV rings are read in multiples of so many cells: any such length gives the same bits on CPU."""
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


def rope_phase(positions: Tensor, head_dim: int, max_period: float) -> Tensor:
    """The complex phases `[..., head_dim / 2]` of absolute `positions`, in float32."""
    index = torch.arange(head_dim // 2, device=positions.device, dtype=torch.float32)
    frequency = torch.exp(index * (-math.log(max_period) * 2 / head_dim))
    angle = frequency * positions[..., None].float()
    return torch.complex(torch.cos(angle), torch.sin(angle))


def rotate(x: Tensor, phase: Tensor) -> Tensor:
    """Turn the interleaved pairs (2i, 2i + 1) of `x`, `[..., D]`."""
    pairs = torch.view_as_complex(x.view(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * phase).flatten(-2)


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

    def forward(self, x: Tensor, phase: Tensor, mask: Tensor) -> Tensor:
        """`[B, T, D]` to the same; `phase` `[T, D / heads / 2]`, `mask` `[T, T]`."""
        qkv = F.linear(x, self.in_proj_weight).view(*x.shape[:2], 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        q, k = rotate(q, phase), rotate(k, phase)
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

    def forward(self, x: Tensor, phase: Tensor, mask: Tensor) -> Tensor:
        x = x + self.layer_scale_1(self.self_attn(self.norm1(x), phase, mask))
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
        phase = rope_phase(positions, head_dim, self.config.max_period)
        mask = visible(positions[:, None], positions, self.window)
        x = x.transpose(1, 2)
        for layer in self.layers:
            x = layer(x, phase, mask)
        return x.transpose(1, 2)


@dataclass(frozen=True)
class FrameView:
    """What one frame's layers share: where they write, what they see, how far they turn."""

    cells: int
    """Cells of the ring that are read, from its first."""
    targets: Tensor
    """int64 `[B * T * H]`: cells to write, in the ring flattened over slot, head and cell."""
    mask: Tensor
    """float32 `[B, 1, T, cells]`, 0 where visible, else minus infinity."""
    phase: Tensor
    """complex64 `[B, T, 1, 1, D / heads / 2]`."""


@dataclass(frozen=True)
class StreamingLayer:
    """One layer's weights as right operands `[in, out]`, its layer scales folded in."""

    norm1: tuple[Tensor, Tensor]
    qkv: Tensor
    out: Tensor
    norm2: tuple[Tensor, Tensor]
    up: Tensor
    down: Tensor

    @classmethod
    def of(cls, layer: CodecLayer) -> StreamingLayer:
        scale1 = layer.layer_scale_1.scale.detach()[:, None]
        scale2 = layer.layer_scale_2.scale.detach()[:, None]
        return cls(
            norm1=_affine(layer.norm1),
            qkv=gemm_operand(layer.self_attn.in_proj_weight.detach()),
            out=gemm_operand(layer.self_attn.out_proj.weight.detach() * scale1),
            norm2=_affine(layer.norm2),
            up=gemm_operand(layer.linear1.weight.detach()),
            down=gemm_operand(layer.linear2.weight.detach() * scale2),
        )


def _affine(norm: nn.LayerNorm) -> tuple[Tensor, Tensor]:
    return norm.weight.detach().clone(), norm.bias.detach().clone()


class StreamingTransformer:
    """A `CodecTransformer` prepared for one frame at a time, T = 2 positions of every row."""

    def __init__(self, module: CodecTransformer) -> None:
        config = module.config
        self.dim = config.d_model
        self.heads = config.num_heads
        self.head_dim = config.d_model // config.num_heads
        self.max_period = config.max_period
        self.window = module.window
        self.capacity = math.ceil(config.context / CELL_BLOCK) * CELL_BLOCK
        self.layers = [StreamingLayer.of(layer) for layer in module.layers]

    def allocate(self, slots: int, device: torch.device) -> KVRing:
        return KVRing.allocate(
            len(self.layers),
            slots,
            self.heads,
            self.capacity,
            self.head_dim,
            device,
            torch.float32,
        )

    def cells(self, frames: int) -> int:
        """Cells to read so that a row with `frames` frames behind it sees all it may."""
        used = (frames + 1) * POSITIONS_PER_FRAME
        return min(self.capacity, math.ceil(used / CELL_BLOCK) * CELL_BLOCK)

    def view(self, frames: Tensor, cells: int) -> FrameView:
        """The next frame of rows that have `frames`, int64 `[B]`, behind them."""
        steps = torch.arange(POSITIONS_PER_FRAME, device=frames.device)
        query = frames[:, None] * POSITIONS_PER_FRAME + steps
        cell = torch.arange(cells, device=frames.device)
        # The newest position that a cell can hold once this frame is written; negative if none.
        key = query[:, -1:] - (query[:, -1:] - cell) % self.capacity
        seen = visible(query[:, :, None], key[:, None], self.window)
        blind = torch.full((), -torch.inf, device=frames.device)
        phase = rope_phase(query, self.head_dim, self.max_period)
        return FrameView(
            cells=cells,
            targets=self._targets(query % self.capacity),
            mask=torch.where(seen, torch.zeros_like(blind), blind)[:, None],
            phase=phase[:, :, None, None],
        )

    def _targets(self, cell: Tensor) -> Tensor:
        """Flat ring cells of `cell` `[B, T]` for every head."""
        rows = torch.arange(len(cell), device=cell.device)[:, None, None]
        heads = torch.arange(self.heads, device=cell.device)
        return ((rows * self.heads + heads) * self.capacity + cell[:, :, None]).flatten()

    def __call__(self, x: Tensor, ring: KVRing, view: FrameView) -> Tensor:
        """`[B, T, D]` to the same, writing the frame's keys and values into the ring."""
        rows = x.shape[0]
        x = x.reshape(-1, self.dim)
        for index, layer in enumerate(self.layers):
            normed = F.layer_norm(x, (self.dim,), *layer.norm1, NORM_EPS)
            qkv = torch.mm(normed, layer.qkv)
            x = torch.addmm(x, self._attend(qkv, ring.k[index], ring.v[index], view), layer.out)
            normed = F.layer_norm(x, (self.dim,), *layer.norm2, NORM_EPS)
            x = torch.addmm(x, F.gelu(torch.mm(normed, layer.up)), layer.down)
        return x.view(rows, -1, self.dim)

    def _attend(self, qkv: Tensor, keys: Tensor, values: Tensor, view: FrameView) -> Tensor:
        """Projections `[B * T, 3 * D]` to attended values `[B * T, D]`; rings `[B, H, C, D/H]`."""
        shape = (len(keys), POSITIONS_PER_FRAME, 3, self.heads, self.head_dim)
        qkv = qkv.view(shape)
        q, k = rotate(qkv[:, :, :2], view.phase).unbind(2)
        for ring, new in ((keys, k), (values, qkv[:, :, 2])):
            ring.view(-1, self.head_dim).index_copy_(
                0, view.targets, new.reshape(-1, self.head_dim)
            )
        attended = F.scaled_dot_product_attention(
            q.transpose(1, 2),
            keys[:, :, : view.cells],
            values[:, :, : view.cells],
            view.mask,
        )
        return attended.transpose(1, 2).reshape(-1, self.dim)
