"""The language model in the form that a live step reads: flat lists of callables and tables.

Derived from a `LanguageModel` without touching it. A `Maker` decides what a matrix becomes; the
plain one keeps the checkpoint's own tensors and the reference's order of operations, copies
nothing, and is the reference for every faster one (`model/fast.py`, quantised ones).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import torch.nn.functional as F
from torch import Tensor

from model.config import LMConfig
from model.depformer import DepformerLayer
from model.layers import FusedAttention, GatedMLP, rms_norm
from model.lm import LanguageModel
from model.temporal import TemporalLayer

Project = Callable[[Tensor], Tensor]
"""`[B, D]` to `[B, O]`, row by row: no row may depend on another."""


class Maker(Protocol):
    """Turns the weights of one product, `[O, D]`, into something callable."""

    def matrix(self, weight: Tensor) -> Project: ...

    def normed(self, alpha: Tensor, weight: Tensor) -> Project:
        """RMS norm with `alpha`, `[D]`, and then the product."""
        ...

    def fan(self, weights: Sequence[Tensor]) -> Callable[[Tensor], Sequence[Tensor]]:
        """Several products of the same `[B, D]`."""
        ...


class PlainMaker:
    """The reference: `F.linear` on the checkpoint's tensors, any device, any dtype."""

    def matrix(self, weight: Tensor) -> Project:
        return lambda x: F.linear(x, weight)

    def normed(self, alpha: Tensor, weight: Tensor) -> Project:
        return lambda x: F.linear(rms_norm(x, alpha), weight)

    def fan(self, weights: Sequence[Tensor]) -> Callable[[Tensor], Sequence[Tensor]]:
        return lambda x: [F.linear(x, weight) for weight in weights]


@dataclass(frozen=True)
class PreparedLayer:
    """One pre-norm layer; `qkv` and `up` contain their norms."""

    qkv: Project
    out: Project
    up: Project
    down: Project


@dataclass(frozen=True)
class PreparedLM:
    """All that a step multiplies with; `depformer[k][j]` is layer j with the weights of step k."""

    config: LMConfig
    emb: tuple[Tensor, ...]
    text_emb: Tensor
    layers: tuple[PreparedLayer, ...]
    out_norm: Project
    text_head: Project
    depformer_in: Callable[[Tensor], Sequence[Tensor]]
    depformer_text_emb: Tensor
    depformer_emb: tuple[Tensor, ...]
    depformer: tuple[tuple[PreparedLayer, ...], ...]
    heads: tuple[Project, ...]

    @property
    def steps(self) -> int:
        """Depformer steps a position: 8 in serving, 16 in parity tests."""
        return len(self.heads)


def prepare(
    lm: LanguageModel,
    maker: Maker,
    steps: int,
    layers: tuple[PreparedLayer, ...] | None = None,
) -> PreparedLM:
    """Prepare `lm` for `steps` depformer steps, at most its `dep_q`.

    `layers` are the temporal layers where somebody else made them.
    """
    if layers is None:
        layers = tuple(_temporal(cast(TemporalLayer, x), maker) for x in lm.transformer.layers)
    alpha = lm.out_norm.alpha.detach().view(-1)
    return PreparedLM(
        config=lm.config,
        emb=tuple(_weight(table) for table in lm.emb),
        text_emb=_weight(lm.text_emb),
        layers=layers,
        out_norm=lambda x: rms_norm(x, alpha),
        text_head=maker.matrix(_weight(lm.text_linear)),
        depformer_in=maker.fan([_weight(lm.depformer_in[k]) for k in range(steps)]),
        depformer_text_emb=_weight(lm.depformer_text_emb),
        depformer_emb=tuple(_weight(lm.depformer_emb[k]) for k in range(steps - 1)),
        depformer=tuple(
            tuple(_depformer(cast(DepformerLayer, x), k, maker) for x in lm.depformer.layers)
            for k in range(steps)
        ),
        heads=tuple(maker.matrix(_weight(lm.linears[k])) for k in range(steps)),
    )


def _weight(module: object) -> Tensor:
    return cast(Tensor, module.weight).detach()  # type: ignore[attr-defined]


def _temporal(layer: TemporalLayer, maker: Maker) -> PreparedLayer:
    return _layer(layer, layer.self_attn, layer.gating, 0, 1, maker)


def _depformer(layer: DepformerLayer, step: int, maker: Maker) -> PreparedLayer:
    gating = cast(GatedMLP, layer.gating[step])
    return _layer(layer, layer.self_attn, gating, step, layer.steps, maker)


def _layer(
    layer: TemporalLayer | DepformerLayer,
    attention: FusedAttention,
    gating: GatedMLP,
    step: int,
    steps: int,
    maker: Maker,
) -> PreparedLayer:
    qkv = attention.in_proj_weight.detach().chunk(steps)[step]
    norm1, norm2 = (norm.alpha.detach().view(-1) for norm in (layer.norm1, layer.norm2))
    return PreparedLayer(
        qkv=maker.normed(norm1, qkv),
        out=maker.matrix(_weight(attention.out_proj).chunk(steps)[step]),
        up=maker.normed(norm2, _weight(gating.linear_in)),
        down=maker.matrix(_weight(gating.linear_out)),
    )
