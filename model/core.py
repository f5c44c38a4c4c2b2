"""The few types that cross from `model` to `agent`: frame, result, session spec, errors, engine.

Everything here is plain data. `agent` imports it through `model/__init__.py` and knows nothing
else of the model; the fakes under `tests/fakes/` implement the same `Engine` protocol.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

SAMPLE_RATE = 24_000
"""Hz, mono."""
FRAME_SAMPLES = 1_920
"""Samples in one frame, 80 ms."""
FRAME_SECONDS = 0.08
AGENT_CODEBOOKS = 8
STEP_BUCKETS_S = (0.005, 0.010, 0.015, 0.020, 0.030, 0.040, 0.050, 0.060, 0.070, 0.080)
"""Upper bounds of `EngineStats.step_histogram`, shaped after the 80 ms budget."""

Pcm = NDArray[np.float32]
"""One frame of audio, `[1920]` float32 at 24 kHz, nominally within -1..1."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """Seeded sampling of one call; its absence means greedy."""

    seed: int
    temperature_text: float = 0.7
    top_k_text: int = 25
    temperature_audio: float = 0.8
    top_k_audio: int = 250


@dataclass(frozen=True, slots=True)
class SessionSpec:
    """What a call is bound to: a bundled voice (a `.pt` basename), a persona, a sampler."""

    voice: str
    persona: str
    sampling: Sampling | None = None


@dataclass(frozen=True, slots=True)
class Handle:
    """One call's claim on a slot. A superseded generation makes every operation a no-op."""

    slot: int
    generation: int


@dataclass(frozen=True, slots=True)
class Bound:
    """The prefill of `epoch` is in place; from here on frames of that epoch are stepped."""

    epoch: int
    prefill_positions: int


@dataclass(frozen=True, slots=True)
class FrameResult:
    """The agent's side of one frame: 1920 samples and the text aligned with them."""

    epoch: int
    seq: int
    position: int
    """The model position that was stepped; the first live one equals `prefill_positions`."""
    pcm: Pcm
    text: str
    """The emitted piece with U+2581 as a space; empty for the pads (ids 0 and 3)."""
    text_token: int
    codes: tuple[int, ...]
    """Agent codes of the emitted frame, `[8]`."""
    held: bool
    """True where this step was forced to padding and silence."""


@dataclass(frozen=True, slots=True)
class CallFailed:
    """This call alone failed; the slot is held until it is closed."""

    epoch: int
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Released:
    """Cleanup succeeded and the slot has gone back; the last event of a call."""


EngineEvent = Bound | FrameResult | CallFailed | Released
Deliver = Callable[[EngineEvent], None]
"""Called in the engine's thread and must not block: pass `loop.call_soon_threadsafe` through it.

A `RuntimeError` (a closed loop) is counted in `EngineStats.undelivered`, never raised.
"""


class EngineError(Exception):
    """Base of every refusal; `code` is the name that goes on the wire."""

    code: ClassVar[str] = "engine_error"


class ResourceExhausted(EngineError):
    """Every slot is in use (contract A2)."""

    code = "resource_exhausted"
    retryable = True

    def __init__(self, current: int, maximum: int) -> None:
        super().__init__(f"all slots are in use ({current} of {maximum}); try again later")
        self.current = current
        self.maximum = maximum


class InvalidVoice(EngineError):
    """The voice is no bundled `.pt` basename (contract B1)."""

    code = "invalid_voice"


class PromptTooLong(EngineError):
    """The prefill would take more than half the context (contract B6)."""

    code = "prompt_too_long"

    def __init__(self, positions: int, limit: int) -> None:
        super().__init__(f"voice and persona take {positions} positions, the limit is {limit}")
        self.positions = positions
        self.limit = limit


class PrefillUnavailable(EngineError):
    """A voice or the tokenizer could not be read (contract B6)."""

    code = "prefill_unavailable"


class InputOverflow(EngineError):
    """The call's queue of waiting frames is full; nothing was kept (contract C4)."""

    code = "input_backpressure"
    retryable = True


class EngineFault(EngineError):
    """The device failed; the process ends and a supervisor starts it again (contract I5)."""

    code = "engine_fault"


@dataclass(frozen=True, slots=True)
class EngineStats:
    """A consistent snapshot, safe to read from any thread."""

    max_sessions: int
    used: int
    """Slots that are open, or closed and not yet cleaned up."""
    steps: int
    frames: int
    """Frames stepped for calls, all rows added up."""
    encoded: int
    prefills: int
    prefix_hits: int
    voice_reads: int
    bucket_changes: int
    retried_steps: int
    failed_rows: int
    undelivered: int
    step_p50_s: float
    step_p99_s: float
    prefix_bytes: int
    faulted: bool
    waiting_frames: int = 0
    prefill_chunks: int = 0
    failed_cleanups: int = 0
    step_seconds: float = 0.0
    """All steps' durations added up."""
    step_histogram: tuple[int, ...] = ()
    """Steps per bucket of `STEP_BUCKETS_S`, and one more for the longer ones."""
    slot_bytes: int = 0
    """Device memory that one slot's state takes."""
    mode: str = ""
    """Device, number format and speed-up in use, for logs and reports."""


class Engine(Protocol):
    """Slots and the one batched step. Every method is thread-safe and returns at once."""

    @property
    def max_sessions(self) -> int: ...

    @property
    def voices(self) -> tuple[str, ...]:
        """Bundled voice basenames, sorted."""
        ...

    @property
    def default_spec(self) -> SessionSpec:
        """The checkpoint's own voice and persona, greedy."""
        ...

    @property
    def context(self) -> int:
        """Positions that the temporal transformer attends to."""
        ...

    def prepare(self, spec: SessionSpec) -> Future[int]:
        """Read, tokenise and prefill in the background; the result is the prefill's positions.

        Cancelling the future drops the work where it has not begun. Fails with `InvalidVoice`,
        `PromptTooLong` or `PrefillUnavailable`.
        """
        ...

    def open(self, deliver: Deliver, *, queue_frames: int = 25) -> Handle:
        """Take a slot, atomically. Raises `ResourceExhausted`, `EngineFault`."""
        ...

    def bind(self, handle: Handle, spec: SessionSpec) -> None:
        """Give the call its voice and persona, once; delivers `Bound` or `CallFailed`.

        Raises `InvalidVoice` for a name that is not in `voices`.
        """
        ...

    def submit(self, handle: Handle, epoch: int, seq: int, pcm: Pcm) -> None:
        """Queue one frame. Raises `InputOverflow` beyond `queue_frames`, keeping nothing.

        `seq` counts from 1 within the epoch. A repeated identity, an old epoch or an old handle
        does nothing. Frames submitted before `Bound` wait for it.
        """
        ...

    def restart(self, handle: Handle) -> int:
        """Hard cancel: drop the epoch's state and queue, replay the prefill; the new epoch."""
        ...

    def hold(self, handle: Handle, held: bool) -> None:
        """From the next step on force padding and silence, or stop forcing (contract I7)."""
        ...

    def close(self, handle: Handle) -> None:
        """Give the slot back. `Released` follows once the cleanup succeeded; idempotent."""
        ...

    def stats(self) -> EngineStats: ...
