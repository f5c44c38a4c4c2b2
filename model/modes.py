"""The fastest form of the language model that this host computes, probed once at load.

On a CPU that is packed products, where memory allows the copies; with bf16 weights only where the
CPU multiplies bf16, for elsewhere fp32 is faster. Everything else is plain.
"""

from __future__ import annotations

import logging
from typing import Literal

import psutil
import torch

from model.fast import FastMaker, can_pack
from model.lm import LanguageModel
from model.prepared import Maker, PlainMaker, PreparedLM, prepare
from model.quantize import quantise_layers

log = logging.getLogger(__name__)

Quantisation = Literal["int8"]
MEMORY_SHARE = 0.5
"""Of the free memory; a packed copy that would take more is not made."""


def prepare_fastest(
    lm: LanguageModel, rows: int, *, steps: int | None = None, quantise: Quantisation | None = None
) -> tuple[PreparedLM, str]:
    """`lm` prepared for steps of one row and of `rows` rows, and the form's name with its dtype.

    With `quantise` the temporal layers of `lm` itself are swapped for int8 ones.
    """
    layers = quantise_layers(lm) if quantise else None
    maker, name = _maker(lm, rows)
    prepared = prepare(lm, maker, steps or lm.config.dep_q, layers)
    name = f"{str(lm.text_emb.weight.dtype).removeprefix('torch.')} {name}"
    return prepared, f"{name}, temporal int8" if quantise else name


def _maker(lm: LanguageModel, rows: int) -> tuple[Maker, str]:
    like = lm.text_emb.weight
    if like.device.type == "cpu" and _packs(like.dtype, rows) and _fits_twice(lm):
        return FastMaker(rows), "packed"
    return PlainMaker(), "plain"


def _packs(dtype: torch.dtype, rows: int) -> bool:
    if dtype == torch.float32:
        return can_pack(dtype, rows)
    if not (packs := packs_bf16(rows)):
        log.warning("bfloat16 was asked for, but this CPU has no products of it: float32 is faster")
    return packs


def _fits_twice(lm: LanguageModel) -> bool:
    copies = 2 * sum(tensor.nbytes for tensor in lm.parameters())
    return copies < MEMORY_SHARE * psutil.virtual_memory().available


def packs_bf16(rows: int) -> bool:
    """Whether bf16 is the fast mode here: the CPU multiplies it, and packed, rightly."""
    return bf16_products() and can_pack(torch.bfloat16, rows)


def bf16_products() -> bool:
    """Whether the CPU multiplies bf16 in hardware, by AMX or by AVX-512's bf16 instructions.

    oneDNN's own word is not enough: it has bf16 products on any AVX-512, by way of fp32.
    """
    return torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()
