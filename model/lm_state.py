"""What the language model remembers of each slot: the ring of keys and values, tokens, position.

Tokens and position are int64 and double-buffered like every other carry (contract I5). The token
column is all that the acoustic delay needs: everything known of the next position's 17 rows, save
the user's first codebook, which comes with the next frame.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from model.config import LMConfig
from model.core import AGENT_CODEBOOKS
from model.state import Carry, CarryKey, CarryLayout, KVRing

AGENT_ROWS = slice(1, 1 + AGENT_CODEBOOKS)
USER_ROW = 1 + AGENT_CODEBOOKS
"""Row of the user's first codebook, the only one that enters without a delay."""
CELLS = 64
"""Rings are cut to multiples of this: attention over such a cut is bit-equal to the whole."""


def round_cells(positions: int) -> int:
    """The smallest cut of a ring that holds `positions`."""
    return -(-positions // CELLS) * CELLS


def initial_column(config: LMConfig) -> list[int]:
    """The 17 tokens of position 0: one past each vocabulary."""
    return [config.text_card] + [config.card] * config.n_q


@dataclass
class LMState:
    """Position p lies in cell p modulo the context, so that sums run in the reference's order.

    `ring` is padded to whole multiples of 64 cells.
    """

    config: LMConfig
    ring: KVRing
    integers: Carry
    token_key: CarryKey
    position_key: CarryKey

    @classmethod
    def allocate(
        cls, config: LMConfig, slots: int, device: torch.device, dtype: torch.dtype
    ) -> LMState:
        ring = KVRing.allocate(
            config.num_layers,
            slots,
            config.num_heads,
            round_cells(config.context),
            config.dim // config.num_heads,
            device,
            dtype,
        )
        layout = CarryLayout()
        tokens, position = layout.add(config.n_q + 1), layout.add(1)
        shape = (slots, layout.width)
        integers = Carry(
            torch.zeros(shape, dtype=torch.int64, device=device),
            torch.zeros(shape, dtype=torch.int64, device=device),
        )
        state = cls(config, ring, integers, tokens, position)
        for slot in range(slots):
            state.reset(slot)
        return state

    def rows(self, start: int, stop: int) -> LMState:
        """The same memory, narrowed to some slots."""
        return LMState(
            self.config,
            self.ring.rows(start, stop),
            self.integers.rows(start, stop),
            self.token_key,
            self.position_key,
        )

    @property
    def tokens(self) -> Tensor:
        """The next input column `[B, 17]`, committed; row 9 is stale."""
        return self.integers.read(self.token_key)

    @property
    def position(self) -> Tensor:
        """The next position `[B]`, committed; it never wraps."""
        return self.integers.read(self.position_key)[:, 0]

    def stage(self, tokens: Tensor, position: Tensor) -> None:
        """Write the column `[B, 17]` after this step and its position `[B]`, for the commit."""
        self.integers.write(self.token_key, tokens)
        self.integers.write(self.position_key, position[:, None])

    def commit(self, stepped: Tensor) -> None:
        self.integers.commit(stepped)

    def reset(self, slot: int) -> None:
        """Back to position 0, before anything was heard or said."""
        self.ring.reset(slot)
        self.place(slot, torch.tensor(initial_column(self.config)), 0)

    def place(self, slot: int, tokens: Tensor, position: int) -> None:
        """Set the slot's next column `[17]` and its position, past any staging."""
        for side in (self.integers.old, self.integers.new):
            self.integers_of(side, self.token_key)[slot] = tokens.to(side.device)
            self.integers_of(side, self.position_key)[slot] = position

    @staticmethod
    def integers_of(side: Tensor, key: CarryKey) -> Tensor:
        return side[:, key.offset : key.offset + key.size]
