"""One whole frame for some of the slots: encode, language model, decode, and only then commit.

`FrameStep` owns the state of all slots. A step reads committed state, stages what follows and
commits last, so a step that raises can be repeated. It never waits for the device, and its shapes
depend on the number of rows alone. Knows nothing of calls, queues or clocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from model.config import ModelConfig
from model.core import Sampling
from model.lm import LanguageModel
from model.lm_state import LMState, round_cells
from model.lm_step import DepformerLoop, LMStep
from model.mimi import Mimi, StreamingMimi
from model.prefill import Prefill, Prefix
from model.prepared import Maker, PlainMaker, prepare
from model.prompt import Prompt
from model.sampling import GREEDY, Choosers, SamplerRows
from model.state import Carry, CarryLayout


@dataclass(frozen=True)
class FrameOutput:
    """What one step made of R rows, on the device; only stepped rows mean anything."""

    pcm: Tensor
    """`[R, 1920]` float32."""
    text: Tensor
    """Text token of the emitted frame, `[R]`."""
    codes: Tensor
    """Agent codes of the emitted frame, `[R, 8]`."""
    finite: Tensor
    """Bool `[R]`: every stage stayed within the real numbers (contract I5)."""
    position: Tensor
    """The position that was stepped, `[R]`."""


class FrameStep:
    """The state of `slots` slots and the step of any run of them.

    The language model's dtype and device are its weights'; the codec is fp32. `sampling` admits
    seeded calls beside greedy ones, at the price of drawing for every row.
    """

    def __init__(
        self,
        lm: LanguageModel,
        mimi: Mimi,
        config: ModelConfig,
        slots: int,
        *,
        maker: Maker | None = None,
        sampling: bool = False,
    ) -> None:
        like = lm.text_emb.weight
        layout = CarryLayout()
        self.lm, self.config = lm, config
        self.prepared = prepare(lm, maker or PlainMaker(), lm.config.dep_q)
        self.codec = StreamingMimi(mimi, layout)
        self.carry = Carry.allocate(layout, slots, like.device)
        self.codec_state = self.codec.allocate(slots, like.device)
        self.lm_state = LMState.allocate(lm.config, slots, like.device, like.dtype)
        self.sampler = SamplerRows.allocate(slots, like.device) if sampling else None
        self.origins = [0] * slots
        self._steps = {rows: LMStep(self.prepared, config, rows) for rows in {1, slots}}
        self._opening = DepformerLoop(self.prepared, 1)

    @property
    def slots(self) -> int:
        return len(self.origins)

    # ---- the step ------------------------------------------------------------------------

    @torch.inference_mode()
    def step(
        self,
        rows: range,
        pcm: Tensor,
        stepped: Tensor,
        held: Tensor,
        positions: Sequence[int] | None = None,
    ) -> FrameOutput:
        """Step slots `rows` with `pcm` `[R, 1920]`; only rows `stepped` `[R]` move on.

        `positions` are the next positions of the rows on the host, 0 for idle ones: attention is
        cut to the longest. Without them it runs over whole rings, as a captured graph must.
        """
        latent = self.codec.encode_latent(
            pcm[:, None],
            self.codec_state.rows(rows.start, rows.stop),
            self.carry.rows(rows.start, rows.stop),
            self._codec_cells(rows, positions),
        )
        heard = torch.isfinite(latent.sum(-1))
        codes = self.codec.quantizer.encode(latent)
        return self._finish(rows, codes, heard, stepped, held, positions)

    @torch.inference_mode()
    def step_codes(
        self,
        rows: range,
        codes: Tensor,
        stepped: Tensor,
        held: Tensor,
        positions: Sequence[int] | None = None,
    ) -> FrameOutput:
        """`step` with the user's codes `[R, 8]` in place of sound; the encoder rests."""
        heard = torch.ones_like(stepped)
        return self._finish(rows, codes, heard, stepped, held, positions)

    def _finish(
        self,
        rows: range,
        codes: Tensor,
        heard: Tensor,
        stepped: Tensor,
        held: Tensor,
        positions: Sequence[int] | None,
    ) -> FrameOutput:
        lm_state = self.lm_state.rows(rows.start, rows.stop)
        codec_state = self.codec_state.rows(rows.start, rows.stop)
        carry = self.carry.rows(rows.start, rows.stop)
        position = lm_state.position.clone()
        choose = self._choosers(rows, position + 1)
        cells = self._lm_cells(positions)
        said = self._steps[len(rows)](lm_state, codes, held, choose, cells)
        cells = self._codec_cells(rows, positions)
        pcm = self.codec.decode(said.codes, codec_state, carry, cells)
        finite = heard & said.finite & torch.isfinite(pcm.sum(-1))
        lm_state.commit(stepped)
        codec_state.commit(stepped)
        carry.commit(stepped)
        return FrameOutput(pcm, said.text, said.codes, finite, position)

    def _choosers(self, rows: range, position: Tensor) -> Choosers:
        if self.sampler is None:
            return GREEDY
        sampler = self.sampler.rows(rows.start, rows.stop)
        return sampler.choosers(sampler.noise(position, self.prepared.steps))

    def _lm_cells(self, positions: Sequence[int] | None) -> int:
        capacity = self.lm_state.ring.capacity
        return capacity if positions is None else min(capacity, round_cells(max(positions) + 1))

    def _codec_cells(self, rows: range, positions: Sequence[int] | None) -> int:
        if positions is None:
            return self.codec.capacity
        ages = [at - self.origins[slot] for slot, at in zip(rows, positions, strict=True)]
        return self.codec.cells(max(0, *ages))

    # ---- slots, between steps ------------------------------------------------------------

    def begin_prefill(self, prompt: Prompt) -> Prefill:
        """A prompt's pass; it touches no slot."""
        return Prefill(self.lm, self.config, prompt)

    @torch.inference_mode()
    def admit(self, slot: int, prefix: Prefix, sampling: Sampling | None) -> None:
        """Copy the prefix into the slot and decide what its last position decides (contract I3)."""
        if sampling is not None and self.sampler is None:
            raise ValueError("this step was built for greedy calls only")
        self.reset(slot)
        if self.sampler is not None:
            self.sampler.assign(slot, sampling)
        positions = prefix.positions
        self.lm_state.ring.k[:, slot, :, :positions] = prefix.k
        self.lm_state.ring.v[:, slot, :, :positions] = prefix.v
        self.lm_state.place(slot, self._first_column(slot, prefix), positions)
        self.origins[slot] = positions

    def _first_column(self, slot: int, prefix: Prefix) -> Tensor:
        """Column M `[17]`, with the text and the first agent codebook that M - 1 decides."""
        position = torch.tensor([prefix.positions], device=prefix.hidden.device)
        choose = self._choosers(range(slot, slot + 1), position)
        text = choose.text(self.prepared.text_head(prefix.hidden))
        projected = self.prepared.depformer_in(prefix.hidden)[0]
        first = choose.audio(self._opening.step(0, projected, text), 0)
        return torch.cat([text, first, prefix.tokens[2:]])

    def reset(self, slot: int) -> None:
        """Forget everything of the slot (contract A5)."""
        self.lm_state.reset(slot)
        self.codec_state.reset(slot)
        self.carry.reset(slot)
        self.origins[slot] = 0
        if self.sampler is not None:
            self.sampler.assign(slot, None)

    def state_tensors(self, slot: int) -> dict[str, Tensor]:
        """Views of all floating state of the slot, by stage; tests poison them (contract I6)."""
        codec, ring = self.codec_state, self.lm_state.ring
        return {
            "carry": self.carry.old[slot],
            "carry_staged": self.carry.new[slot],
            "temporal_k": ring.k[:, slot],
            "temporal_v": ring.v[:, slot],
            "encoder_k": codec.encoder.k[:, slot],
            "encoder_v": codec.encoder.v[:, slot],
            "decoder_k": codec.decoder.k[:, slot],
            "decoder_v": codec.decoder.v[:, slot],
        }

    def poison(self, slot: int) -> None:
        """Fill the slot with NaN: what a later owner could see of it would show."""
        for tensor in self.state_tensors(slot).values():
            tensor.fill_(torch.nan)
