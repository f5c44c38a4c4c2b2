"""One whole frame for some of the slots: encode, language model, decode; the commit is apart.

`FrameStep` owns the state of all slots. A step reads committed state and stages what follows;
whoever asked for it commits last, so a step that raises can be repeated. It never waits for the
device, and its shapes depend on the number of rows alone. Knows nothing of calls, queues or clocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from model.config import ModelConfig
from model.core import Sampling
from model.lm import LanguageModel
from model.lm_slots import LMSlots
from model.mimi import Mimi, StreamingMimi
from model.prefill import Prefill, Prefix
from model.prepared import PlainMaker, PreparedLM, prepare
from model.prompt import Prompt
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
    """The state of `slots` slots and the step of one or all of them.

    The language model's dtype and device are its weights'; the codec is fp32. `prepared` is the
    form to compute with, the plain one where none is given; `kv_dtype` as for `LMSlots`.
    """

    def __init__(
        self,
        lm: LanguageModel,
        mimi: Mimi,
        config: ModelConfig,
        slots: int,
        *,
        prepared: PreparedLM | None = None,
        sampling: bool = False,
        kv_dtype: torch.dtype | None = None,
    ) -> None:
        prepared = prepared or prepare(lm, PlainMaker(), lm.config.dep_q)
        device = prepared.text_emb.device
        layout = CarryLayout()
        self.lm, self.config = lm, config
        self.codec = StreamingMimi(mimi, layout)
        self.carry = Carry.allocate(layout, slots, device)
        self.codec_state = self.codec.allocate(slots, device)
        self.lm_slots = LMSlots(prepared, config, slots, sampling=sampling, kv_dtype=kv_dtype)
        self.origins = [0] * slots
        """Each slot's first live position, where its codec begins."""

    @property
    def slots(self) -> int:
        return len(self.origins)

    @property
    def capacity(self) -> int:
        """Cells of the language model's ring."""
        return self.lm_slots.state.ring.capacity

    # ---- the step ------------------------------------------------------------------------

    @torch.inference_mode()
    def step(
        self,
        rows: range,
        pcm: Tensor,
        held: Tensor,
        positions: Sequence[int] | None = None,
    ) -> FrameOutput:
        """Step slots `rows` with `pcm` `[R, 1920]`; commits nothing.

        `positions` are the rows' next positions on the host, 0 for idle ones: attention is cut to
        the longest. Without them it runs over whole rings, as a captured graph must.
        """
        latent = self.codec.encode_latent(
            pcm[:, None],
            self.codec_state.rows(rows.start, rows.stop),
            self.carry.rows(rows.start, rows.stop),
            self._codec_cells(rows, positions),
        )
        heard = torch.isfinite(latent.sum(-1))
        codes = self.codec.quantizer.encode(latent)
        return self._answer(rows, codes, heard, held, positions)

    @torch.inference_mode()
    def step_codes(
        self,
        rows: range,
        codes: Tensor,
        held: Tensor,
        positions: Sequence[int] | None = None,
    ) -> FrameOutput:
        """`step` with the user's codes `[R, 8]` in place of sound; the encoder rests."""
        heard = torch.ones_like(held)
        return self._answer(rows, codes, heard, held, positions)

    def _answer(
        self,
        rows: range,
        codes: Tensor,
        heard: Tensor,
        held: Tensor,
        positions: Sequence[int] | None,
    ) -> FrameOutput:
        codec_state = self.codec_state.rows(rows.start, rows.stop)
        carry = self.carry.rows(rows.start, rows.stop)
        said = self.lm_slots.step(rows, codes, held, positions)
        cells = self._codec_cells(rows, positions)
        pcm = self.codec.decode(said.codes, codec_state, carry, cells)
        finite = heard & said.finite & torch.isfinite(pcm.sum(-1))
        return FrameOutput(pcm, said.text, said.codes, finite, said.position)

    @torch.inference_mode()
    def commit(self, rows: range, stepped: Tensor) -> None:
        """Adopt what the last step of `rows` staged, where `stepped` `[R]` is true.

        Last of all: from its first write on the step must not be repeated, even where this raises.
        """
        self.lm_slots.commit(rows, stepped)
        self.codec_state.rows(rows.start, rows.stop).commit(stepped)
        self.carry.rows(rows.start, rows.stop).commit(stepped)

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
        """Start a call in the slot, its codec fresh. Raises as `LMSlots.admit`."""
        self._begin_sound(slot, prefix.positions)
        self.lm_slots.admit(slot, prefix, sampling)

    def reset(self, slot: int) -> None:
        """Forget everything of the slot (contract A5)."""
        self._begin_sound(slot, 0)
        self.lm_slots.reset(slot)

    def _begin_sound(self, slot: int, origin: int) -> None:
        """A fresh codec whose first frame is stepped at position `origin`."""
        self.codec_state.reset(slot)
        self.carry.reset(slot)
        self.origins[slot] = origin

    def state_tensors(self, slot: int) -> dict[str, Tensor]:
        """Views of all floating state of the slot, by stage; tests poison them (contract I6)."""
        codec, ring, sampler = self.codec_state, self.lm_slots.state.ring, self.lm_slots.sampler
        state = {
            "carry": self.carry.old[slot],
            "carry_staged": self.carry.new[slot],
            "temporal_k": ring.k[:, slot],
            "temporal_v": ring.v[:, slot],
            "encoder_k": codec.encoder.k[:, slot],
            "encoder_v": codec.encoder.v[:, slot],
            "decoder_k": codec.decoder.k[:, slot],
            "decoder_v": codec.decoder.v[:, slot],
        }
        if sampler is not None:
            state["temperature_text"] = sampler.temperature_text[slot]
            state["temperature_audio"] = sampler.temperature_audio[slot]
        return state

    def poison(self, slot: int) -> None:
        """Fill the slot with NaN: what a later owner could see of it would show."""
        for tensor in self.state_tensors(slot).values():
            tensor.fill_(torch.nan)
