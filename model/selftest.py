"""At load: does a call's result depend on the slot it sits in? (Gate A on the host at hand.)

Matrix libraries may compute the last rows of a product, or the rows of another thread, in another
order. All slots are given the same call and one step of it is computed and thrown away.
"""

from __future__ import annotations

import logging

import torch
from torch import Tensor

from model.core import AGENT_CODEBOOKS, FRAME_SAMPLES
from model.prefill import prefill
from model.prompt import build_prompt_from_codes
from model.step import FrameOutput, FrameStep

log = logging.getLogger(__name__)

VOICE_FRAMES = 4
ROW_BLOCK = 4
"""Threads share out the rows of a product in blocks of so many, and a rest is computed otherwise.

Measured with MKL on AVX2, 2 to 16 threads: in products of 5, 6, 7, 9, 10 or 11 rows the bits of a
row depend on its place, in those of 1 to 4 or a multiple of 4 they do not. Mimi has 2 rows a call.
"""


def rows_for(slots: int, device: torch.device) -> int:
    """Rows to allocate so that a row's bits do not depend on its place."""
    if slots <= 2 or device.type != "cpu" or torch.get_num_threads() == 1:
        return slots
    return -(-slots // ROW_BLOCK) * ROW_BLOCK


def settle_threads(step: FrameStep) -> None:
    """Compute with one thread where more of them would tell the slots apart."""
    if step.slots == 1 or rows_agree(step):
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    if threads > 1 and rows_agree(step):
        log.warning("results depend on the slot at %d threads here; computing with 1", threads)
    else:
        log.warning("results depend on the slot on this host: calls are not bit-identical")


def rows_agree(step: FrameStep) -> bool:
    """Whether equal calls in all slots give equal bits; the slots are clean afterwards."""
    generator = torch.Generator().manual_seed(0)
    codes = torch.randint(step.config.lm.card, (AGENT_CODEBOOKS, VOICE_FRAMES), generator=generator)
    prefix = prefill(step.lm, step.config, build_prompt_from_codes(codes, [], step.config))
    for slot in range(step.slots):
        step.admit(slot, prefix, None)
    pcm = 0.1 * torch.randn(FRAME_SAMPLES, generator=generator).expand(step.slots, -1)
    idle = torch.zeros(step.slots, dtype=torch.bool)
    positions = [prefix.positions] * step.slots
    device = prefix.hidden.device
    output = step.step(
        range(step.slots), pcm.to(device), idle.to(device), idle.to(device), positions
    )
    for slot in range(step.slots):
        step.reset(slot)
    return all(_same_rows(tensor) for tensor in _results(output))


def _results(output: FrameOutput) -> tuple[Tensor, ...]:
    return output.pcm, output.text, output.codes


def _same_rows(rows: Tensor) -> bool:
    return bool((rows == rows[:1]).all())
