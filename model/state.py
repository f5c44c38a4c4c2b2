"""Per-slot state, apart from the weights: preallocated tensors with a slot dimension.

Two kinds, after contract I5. `Carry` is everything small (conv carries, tails, positions): it is
double-buffered, a step reads `old` and writes `new`, and `commit` swaps the rows that were stepped,
last of all. `KVRing` is large and written in place: the cell of an uncommitted position lies
outside every window, so a step that fails leaves nothing behind that a retry could see.

Shapes never change. `rows(...)` narrows both to some slots without a copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor


@dataclass(frozen=True)
class CarryKey:
    """Where one tensor lies inside the flat carry of a slot."""

    offset: int
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return prod(self.shape)


class CarryLayout:
    """Collects what the streaming modules declare, before any state exists."""

    def __init__(self) -> None:
        self.width = 0

    def add(self, *shape: int) -> CarryKey:
        key = CarryKey(self.width, shape)
        self.width += key.size
        return key


@dataclass
class Carry:
    """Flat float32 carries of all slots, `[B, width]` twice; the start state is zeros."""

    old: Tensor
    new: Tensor

    @classmethod
    def allocate(cls, layout: CarryLayout, slots: int, device: torch.device) -> Carry:
        shape = (slots, layout.width)
        return cls(torch.zeros(shape, device=device), torch.zeros(shape, device=device))

    def rows(self, start: int, stop: int) -> Carry:
        return Carry(self.old[start:stop], self.new[start:stop])

    def read(self, key: CarryKey) -> Tensor:
        """`[B, *key.shape]`, a view of the committed state."""
        return self.old[:, key.offset : key.offset + key.size].view(len(self.old), *key.shape)

    def write(self, key: CarryKey, value: Tensor) -> None:
        """Stage `value`, `[B, *key.shape]`, for the commit."""
        self.new[:, key.offset : key.offset + key.size] = value.flatten(1)

    def commit(self, stepped: Tensor) -> None:
        """Adopt the staged state of the rows where `stepped`, bool `[B]`, is true."""
        torch.where(stepped[:, None], self.new, self.old, out=self.old)

    def reset(self, slot: int) -> None:
        self.old[slot].zero_()
        self.new[slot].zero_()


def bits(x: Tensor) -> Tensor:
    """Floats of eight bits as integers, which every operation can move; others as they are."""
    return x.view(torch.int8) if x.dtype.itemsize == 1 else x


@dataclass
class KVRing:
    """Keys (after rope) and values of one transformer, `[L, B, H, C, D]` each."""

    k: Tensor
    v: Tensor

    @classmethod
    def allocate(
        cls,
        layers: int,
        slots: int,
        heads: int,
        capacity: int,
        head_dim: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> KVRing:
        shape = (layers, slots, heads, capacity, head_dim)
        return cls(
            torch.zeros(shape, device=device, dtype=dtype),
            torch.zeros(shape, device=device, dtype=dtype),
        )

    @property
    def capacity(self) -> int:
        return self.k.shape[3]

    def rows(self, start: int, stop: int) -> KVRing:
        return KVRing(self.k[:, start:stop], self.v[:, start:stop])

    def reset(self, slot: int) -> None:
        """Zero the slot, so that masked cells hold no NaN (contract I6)."""
        self.k[:, slot].zero_()
        self.v[:, slot].zero_()
