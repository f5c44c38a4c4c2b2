"""At load: does a call's result depend on its slot or on its neighbours? (Gate A on this host.)

Matrix libraries may compute the last rows of a product, or the rows of another thread, in another
order, and sums over a longer ring too. Steps and layers are computed and thrown away to find out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from model.core import AGENT_CODEBOOKS, FRAME_SAMPLES
from model.layers import window_size
from model.lm_state import round_cells
from model.lm_step import temporal_step
from model.mimi.transformer import POSITIONS_PER_FRAME, StreamingTransformer
from model.prefill import prefill
from model.prompt import build_prompt_from_codes
from model.state import KVRing
from model.step import FrameStep

log = logging.getLogger(__name__)

VOICE_FRAMES = 4
FAINT = 1e-3
"""Loudness of what enters a layer: so faint that what attention adds shows to its last bit."""
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
    results = _idle_step(step, prefix.positions)
    _clean(step)
    return all(bool((rows == rows[:1]).all()) for rows in results)


@torch.inference_mode()
def cuts_agree(step: FrameStep) -> bool:
    """Whether rows say the same at every length that their rings may be read to.

    Else the age of a neighbour, which decides how far all rows read, would be heard. The slots are
    clean afterwards.
    """
    agree = step.slots == 1 or (_temporal_agrees(step) and _codec_agrees(step))
    _clean(step)
    if not agree:
        log.warning("results depend on how much of the rings is read here; reading them whole")
    return agree


def _temporal_agrees(step: FrameStep) -> bool:
    """One layer shows it, for all are of one shape; dozens of whole steps would delay the start."""
    slots, random = step.lm_slots, _random(step)
    lm = replace(slots.prepared, layers=slots.prepared.layers[:1])
    ring = KVRing(slots.state.ring.k[:1], slots.state.ring.v[:1])
    x = FAINT * _noise((step.slots, lm.config.dim), random).to(lm.text_emb.dtype)
    _fill(ring, random)
    window = window_size(lm.config.context, step.config.attention_window)

    def read(cells: int, filled: int) -> Tensor:
        position = torch.full((step.slots,), filled - 1, device=x.device)
        return temporal_step(lm, x, position, ring, window, cells)

    cuts = {round_cells(position + 1) for position in range(lm.config.context)}
    return _reads_agree(read, cuts, step.capacity)


def _codec_agrees(step: FrameStep) -> bool:
    codec, state = step.codec, step.codec_state
    halves = (
        (codec.encoder_transformer, state.encoder),
        (codec.decoder_transformer, state.decoder),
    )
    return all(_codec_transformer_agrees(*half, _random(step)) for half in halves)


def _codec_transformer_agrees(
    transformer: StreamingTransformer, ring: KVRing, random: torch.Generator
) -> bool:
    rows, capacity = ring.k.shape[1], transformer.capacity
    x = FAINT * _noise((rows, POSITIONS_PER_FRAME, transformer.dim), random)
    _fill(ring, random)

    def read(cells: int, filled: int) -> Tensor:
        frames = torch.full((rows,), filled // POSITIONS_PER_FRAME - 1, device=x.device)
        return transformer(x, ring, transformer.view(frames, cells))

    cuts = {transformer.cells(frames) for frames in range(capacity // POSITIONS_PER_FRAME)}
    return _reads_agree(read, cuts, capacity)


def _reads_agree(read: Callable[[int, int], Tensor], cuts: set[int], whole: int) -> bool:
    """Whether rows that have filled a cut get the same from the cut as from the whole ring.

    If all its cells are summed alike, so are the fewer of a younger row; and two cuts that agree
    with the whole agree with each other. So one comparison a cut is enough.
    """
    return all(torch.equal(read(cut, cut), read(whole, cut)) for cut in sorted(cuts - {whole}))


def _random(step: FrameStep) -> torch.Generator:
    return torch.Generator(step.lm_slots.state.ring.k.device).manual_seed(0)


def _noise(shape: Sequence[int], random: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=random, device=random.device)


def _fill(ring: KVRing, random: torch.Generator) -> None:
    """Every cell of every slot; a mask hides what a row has not come to."""
    for cache in (ring.k, ring.v):
        cache.normal_(generator=random)


def _idle_step(step: FrameStep, position: int) -> tuple[Tensor, ...]:
    """What a step makes of equal sound in all rows, rows first; none of them moves on.

    Keys and values that it wrote are among it: they show what tokens round away.
    """
    ring, rows = step.lm_slots.state.ring, step.slots
    generator = torch.Generator().manual_seed(0)
    pcm = 0.1 * torch.randn(FRAME_SAMPLES, generator=generator).expand(rows, -1)
    pcm, idle = pcm.to(ring.k.device), torch.zeros(rows, dtype=torch.bool, device=ring.k.device)
    output = step.step(range(rows), pcm, idle, [position] * rows)
    cell = position % step.config.lm.context
    written = (cache[:, :, :, cell].transpose(0, 1).clone() for cache in (ring.k, ring.v))
    return output.pcm, output.text, output.codes, *written


def _clean(step: FrameStep) -> None:
    for slot in range(step.slots):
        step.reset(slot)
