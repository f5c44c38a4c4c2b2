"""The language model of all slots: state, sampler and step together, without any sound.

What `model/step.py` puts between the codec's two halves; whoever has user codes can drive it alone.
Admission is here because it decides tokens (contract I3). Commits only when told to.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from model.config import ModelConfig
from model.core import Sampling
from model.lm_state import LMState, round_cells
from model.lm_step import DepformerLoop, LMOutput, LMStep
from model.prefill import Prefix
from model.prepared import PreparedLM
from model.sampling import GREEDY, Choosers, SamplerRows


class LMSlots:
    """`slots` slots over one prepared model.

    `sampling` admits seeded calls beside greedy ones, at the price of drawing for every row. Keys
    and values are kept in `kv_dtype`, where none is given in that of the weights.
    """

    def __init__(
        self,
        prepared: PreparedLM,
        config: ModelConfig,
        slots: int,
        *,
        sampling: bool = False,
        kv_dtype: torch.dtype | None = None,
    ) -> None:
        like = prepared.text_emb
        self.prepared = prepared
        self.state = LMState.allocate(config.lm, slots, like.device, kv_dtype or like.dtype)
        self.sampler = SamplerRows.allocate(slots, like.device) if sampling else None
        self._steps = {rows: LMStep(prepared, config, rows) for rows in {1, slots}}
        self._opening = DepformerLoop(prepared, 1)

    def step(
        self, rows: range, codes: Tensor, held: Tensor, positions: Sequence[int] | None = None
    ) -> LMOutput:
        """Step slots `rows`, one or all of them, with user codes `[R, 8]`; commits nothing.

        `positions` are the rows' next positions on the host, 0 for idle ones: attention is cut to
        the longest. Without them it runs over whole rings, as a captured graph must.
        """
        state = self.state.rows(rows.start, rows.stop)
        choose = self._choosers(rows, state.position + 1)
        return self._steps[len(rows)](state, codes, held, choose, self._cells(positions))

    def commit(self, rows: range, stepped: Tensor) -> None:
        """Adopt what the last step of `rows` staged, where `stepped` `[R]` is true."""
        self.state.rows(rows.start, rows.stop).commit(stepped)

    def admit(self, slot: int, prefix: Prefix, sampling: Sampling | None) -> None:
        """Copy the prefix into the slot and decide what its last position decides.

        Raises `ValueError` for a seeded call where only greedy ones were provided for.
        """
        if sampling is not None and self.sampler is None:
            raise ValueError("these slots were made for greedy calls only")
        self.reset(slot)
        if self.sampler is not None:
            self.sampler.assign(slot, sampling)
        positions = prefix.positions
        self.state.ring.k[:, slot, :, :positions] = prefix.k
        self.state.ring.v[:, slot, :, :positions] = prefix.v
        self.state.place(slot, self._first_column(slot, prefix), positions)

    def reset(self, slot: int) -> None:
        """Forget everything of the slot (contract A5)."""
        self.state.reset(slot)
        if self.sampler is not None:
            self.sampler.assign(slot, None)

    def _first_column(self, slot: int, prefix: Prefix) -> Tensor:
        """Column M `[17]`, with the text and the first agent codebook that M - 1 decides."""
        position = torch.tensor([prefix.positions], device=prefix.hidden.device)
        choose = self._choosers(range(slot, slot + 1), position)
        text = choose.text(self.prepared.text_head(prefix.hidden))
        projected = self.prepared.depformer_in(prefix.hidden)[0]
        first = choose.audio(self._opening.step(0, projected, text), 0)
        return torch.cat([text, first, prefix.tokens[2:]])

    def _choosers(self, rows: range, position: Tensor) -> Choosers:
        """How the tokens of `position` `[R]` are decided."""
        if self.sampler is None:
            return GREEDY
        sampler = self.sampler.rows(rows.start, rows.stop)
        return sampler.choosers(sampler.noise(position, self.prepared.steps))

    def _cells(self, positions: Sequence[int] | None) -> int:
        capacity = self.state.ring.capacity
        return capacity if positions is None else min(capacity, round_cells(max(positions) + 1))
