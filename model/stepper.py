"""What the engine asks of a device: slots that are admitted, stepped together and released.

The engine is written against these protocols alone. `model/device.py` fulfils them with the real
model; the tests also bring a deterministic stand-in. Everything here is host data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from model.core import Sampling


class Measured(Protocol):
    """A prompt before its prefill."""

    @property
    def positions(self) -> int: ...


class Snapshot(Protocol):
    """A finished prefill, ready to be copied into any slot."""

    @property
    def positions(self) -> int: ...

    @property
    def nbytes(self) -> int: ...


PromptT = TypeVar("PromptT", bound=Measured)
PromptT_contra = TypeVar("PromptT_contra", bound=Measured, contravariant=True)
PrefixT = TypeVar("PrefixT", bound=Snapshot)
PrefixT_co = TypeVar("PrefixT_co", bound=Snapshot, covariant=True)


class Prefill(Protocol[PrefixT_co]):
    """One prompt's causal pass; chunk boundaries depend on the prompt alone."""

    def advance(self) -> PrefixT_co | None:
        """Run one chunk; the snapshot after the last."""
        ...


@dataclass(frozen=True, slots=True)
class StepInput:
    """One step's frames; every array has all rows of the stepper."""

    pcm: NDArray[np.float32]
    """`[B, 1920]`; zeros where no frame is stepped."""
    stepped: NDArray[np.bool_]
    held: NDArray[np.bool_]
    positions: list[int]
    """The next position of each row, 0 where no call is live."""
    codes: NDArray[np.int64] | None = None
    """`[B, 8]` user codes that take the place of the encoded frames, for offline work alone."""


@dataclass(frozen=True, slots=True)
class StepOutput:
    """What the step made, for all rows of the stepper; only stepped rows mean anything."""

    pcm: NDArray[np.float32]
    text: NDArray[np.int64]
    """`[B]`, the emitted frame's text token."""
    codes: NDArray[np.int64]
    """`[B, 8]`, the emitted frame's agent codes."""
    finite: NDArray[np.bool_]
    """`[B]`; false where encode, temporal, depformer or decode left the real numbers."""


class Stepper(Protocol[PromptT_contra, PrefixT]):
    """The state of all slots and the one batched step."""

    @property
    def slots(self) -> int:
        """Calls that it holds."""
        ...

    @property
    def rows(self) -> int:
        """Rows that a step of all slots computes; those beyond `slots` are never given out."""
        ...

    @property
    def fixed_rows(self) -> bool:
        """Every step must compute all rows, as on a GPU."""
        ...

    @property
    def mode(self) -> str: ...

    @property
    def slot_bytes(self) -> int: ...

    def begin_prefill(self, prompt: PromptT_contra) -> Prefill[PrefixT]: ...

    def admit(self, slot: int, prefix: PrefixT, sampling: Sampling | None) -> None:
        """Copy the prefix in and decide text and first codebook of its next position."""
        ...

    def release(self, slot: int) -> None:
        """Clean the slot's tensors; afterwards it may be admitted again."""
        ...

    def step(self, rows: range, frames: StepInput) -> StepOutput:
        """Step the rows that have a frame.

        A raise leaves every row's state unchanged, or it is a `DeviceFault`.
        """
        ...
