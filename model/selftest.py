"""At load: does a call's result depend on its slot or on its neighbours? (Gate A on this host.)

Matrix libraries may compute the last rows of a product, or the rows of another thread, in another
order, and sums over a longer ring too. Steps are computed and thrown away to find out.
"""

from __future__ import annotations

import logging

import torch
from torch import Tensor

from model.core import AGENT_CODEBOOKS, FRAME_SAMPLES
from model.mimi.transformer import POSITIONS_PER_FRAME
from model.prefill import prefill
from model.prompt import build_prompt_from_codes
from model.step import FrameStep

log = logging.getLogger(__name__)

VOICE_FRAMES = 4
CHECKED_POSITION = 200
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
    results = _idle_step(step, prefix.positions, cut=True)
    _clean(step)
    return all(bool((rows == rows[:1]).all()) for rows in results)


def cuts_agree(step: FrameStep) -> bool:
    """Whether a step over the part of its rings that holds anything gives the bits of one over all.

    Else the age of a neighbour, which decides how far all rows read, would be heard. The slots are
    clean afterwards.
    """
    position = min(CHECKED_POSITION, step.capacity // 2 - 1)
    frames = min(position, step.codec.capacity // 4 - 1)
    _fill(step, position, frames)
    part, whole = (_idle_step(step, position, cut=cut) for cut in (True, False))
    _clean(step)
    agree = all(torch.equal(a, b) for a, b in zip(part, whole, strict=True))
    if not agree:
        log.warning("results depend on how much of the rings is read here; reading them whole")
    return agree


def _fill(step: FrameStep, position: int, frames: int) -> None:
    """As if every slot had come to `position`, `frames` frames after its call began."""
    lm, codec = step.lm_slots.state, step.codec_state
    generator = torch.Generator(lm.ring.k.device).manual_seed(0)
    for ring in (lm.ring, codec.encoder, codec.decoder):
        cells = position if ring is lm.ring else POSITIONS_PER_FRAME * frames
        for cache in (ring.k, ring.v):
            cache[:, :, :, :cells].normal_(generator=generator)
    codec.frames.fill_(frames)
    column = torch.zeros(step.config.lm.n_q + 1, dtype=torch.int64)
    for slot in range(step.slots):
        lm.place(slot, column, position)
        step.origins[slot] = position - frames


def _idle_step(step: FrameStep, position: int, *, cut: bool) -> tuple[Tensor, ...]:
    """What a step makes of equal sound in all rows, rows first; none of them moves on.

    Keys and values that it wrote are among it: they show what tokens round away.
    """
    ring, rows = step.lm_slots.state.ring, step.slots
    generator = torch.Generator().manual_seed(0)
    pcm = 0.1 * torch.randn(FRAME_SAMPLES, generator=generator).expand(rows, -1)
    pcm, idle = pcm.to(ring.k.device), torch.zeros(rows, dtype=torch.bool, device=ring.k.device)
    output = step.step(range(rows), pcm, idle, idle, [position] * rows if cut else None)
    cell = position % step.config.lm.context
    written = (cache[:, :, :, cell].transpose(0, 1).clone() for cache in (ring.k, ring.v))
    return output.pcm, output.text, output.codes, *written


def _clean(step: FrameStep) -> None:
    for slot in range(step.slots):
        step.reset(slot)
