"""The fastest form of the language model that this host computes, probed once at load.

On a CPU with fp32 weights that is packed products, where memory allows the copy. bf16 products
need AMX or VNNI; `bf16_products` says whether the host has them. Everything else is plain.
"""

from __future__ import annotations

from typing import Literal

import psutil
import torch

from model.fast import FastMaker, can_pack
from model.lm import LanguageModel
from model.prepared import Maker, PlainMaker, PreparedLM, prepare
from model.quantize import quantise_layers

Quantisation = Literal["int8"]
MEMORY_SHARE = 0.5
"""Of the free memory; a packed copy that would take more is not made."""


def prepare_fastest(
    lm: LanguageModel, rows: int, *, steps: int | None = None, quantise: Quantisation | None = None
) -> tuple[PreparedLM, str]:
    """`lm` prepared for steps of one row and of `rows` rows, and the name of the form.

    With `quantise` the temporal layers of `lm` itself are swapped for int8 ones.
    """
    layers = quantise_layers(lm) if quantise else None
    maker, name = _maker(lm, rows)
    prepared = prepare(lm, maker, steps or lm.config.dep_q, layers)
    return prepared, f"{name}, temporal int8" if quantise else name


def _maker(lm: LanguageModel, rows: int) -> tuple[Maker, str]:
    like = lm.text_emb.weight
    on_cpu = like.device.type == "cpu" and like.dtype == torch.float32
    if on_cpu and can_pack() and _fits_twice(lm):
        return FastMaker(rows), "packed"
    return PlainMaker(), "plain"


def _fits_twice(lm: LanguageModel) -> bool:
    copies = 2 * sum(tensor.nbytes for tensor in lm.parameters())
    return copies < MEMORY_SHARE * psutil.virtual_memory().available


def bf16_products() -> bool:
    """Whether the CPU multiplies bf16 in hardware, by AMX or by AVX-512's bf16 instructions."""
    supported: bool = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return supported
