"""One call of the whole step: eager for any rows, or from fixed addresses as a CUDA graph.

Both return the same packed host array, so that a GPU step has exactly one copy back. The eager
form is the reference. Knows nothing of what the step computes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.core import AGENT_CODEBOOKS, FRAME_SAMPLES
from model.step import FrameOutput, FrameStep
from model.stepper import StepInput, StepOutput

log = logging.getLogger(__name__)

TEXT = FRAME_SAMPLES
CODES = slice(TEXT + 1, TEXT + 1 + AGENT_CODEBOOKS)
FINITE = CODES.stop
WIDTH = FINITE + 1
"""Columns of a packed row: samples, text, codes, finite. float32 holds any token exactly."""
CAPTURE_WARMUPS = 3
FIRST_CUT = 256
"""Shorter rings than this are small beside the weights that every step reads."""


class PackedStep(Protocol):
    """A step in two parts, so that all that may raise comes before anything has changed."""

    def __call__(self, rows: range, frames: StepInput) -> NDArray[np.float32]:
        """Step `rows` to their packed rows `[R, WIDTH]` on the host; commits nothing."""
        ...

    def commit(self, rows: range, frames: StepInput) -> None:
        """Adopt that step, the last that was called, where `frames` says that a row moves on."""
        ...


def pack(output: FrameOutput) -> Tensor:
    """`[R, WIDTH]` float32 on the device."""
    columns = (
        output.pcm,
        output.text[:, None].float(),
        output.codes.float(),
        output.finite[:, None].float(),
    )
    return torch.cat(columns, dim=1)


def unpack(packed: NDArray[np.float32], rows: range, total: int) -> StepOutput:
    """The packed rows in their places among `total`; rows that were not computed are zeros."""
    section = slice(rows.start, rows.stop)
    output = StepOutput(
        pcm=np.zeros((total, FRAME_SAMPLES), np.float32),
        text=np.zeros(total, np.int64),
        codes=np.zeros((total, AGENT_CODEBOOKS), np.int64),
        finite=np.zeros(total, np.bool_),
    )
    output.pcm[section] = packed[:, :FRAME_SAMPLES]
    finite = packed[:, FINITE] > 0
    output.finite[section] = finite
    tokens = np.where(finite[:, None], packed[:, TEXT:FINITE], 0).astype(np.int64)
    output.text[section], output.codes[section] = tokens[:, 0], tokens[:, 1:]
    return output


class EagerStep:
    """The reference: copies in, one plain call, one copy back. Without `cut` over whole rings."""

    def __init__(self, step: FrameStep, device: torch.device, *, cut: bool = True) -> None:
        self._step, self._device, self._cut = step, device, cut

    def __call__(self, rows: range, frames: StepInput) -> NDArray[np.float32]:
        held = self._take(frames.held, rows)
        positions = frames.positions[rows.start : rows.stop] if self._cut else None
        if frames.codes is None:
            output = self._step.step(rows, self._take(frames.pcm, rows), held, positions)
        else:
            output = self._step.step_codes(rows, self._take(frames.codes, rows), held, positions)
        packed: NDArray[np.float32] = pack(output).cpu().numpy()
        return packed

    def commit(self, rows: range, frames: StepInput) -> None:
        self._step.commit(rows, self._take(frames.stepped, rows))

    def _take(self, array: NDArray[np.generic], rows: range) -> Tensor:
        return torch.from_numpy(array[rows.start : rows.stop]).to(self._device)


def ring_cuts(capacity: int) -> tuple[int, ...]:
    """Lengths to capture a step for, in cells of the language model's ring, the whole one last."""
    doublings = range((capacity - 1).bit_length())
    return (*(FIRST_CUT << n for n in doublings if FIRST_CUT << n < capacity), capacity)


class StaticStep:
    """All slots from and to fixed addresses: captured on CUDA, called plainly elsewhere.

    A step reads its rings up to the shortest of `cuts` that holds the longest call, by a graph of
    its own. The graphs share their memory, for none reads what another left there. Nothing is
    stepped while capturing, so that the slots' state stays as it was.
    """

    def __init__(self, step: FrameStep, device: torch.device, cuts: Sequence[int]) -> None:
        pinned = device.type == "cuda"
        self._step, self._slots, self._cuts = step, step.slots, sorted(cuts)
        self._inputs = _buffers(step.slots, device)
        self._host_inputs = _buffers(step.slots, torch.device("cpu"), pinned=pinned)
        self._output = torch.zeros(step.slots, WIDTH, device=device)
        self._host_output = torch.zeros(step.slots, WIDTH, pin_memory=pinned)
        self._pool = torch.cuda.graph_pool_handle() if pinned else None
        # The largest first, so that the others find their memory in its.
        self._launch = {cut: self._made(partial(self._run, cut)) for cut in self._cuts[::-1]}
        self._adopt = self._made(self._commit)

    def __call__(self, rows: range, frames: StepInput) -> NDArray[np.float32]:
        assert len(rows) == self._slots and frames.codes is None
        sources = (frames.pcm, frames.stepped, frames.held)
        for device_side, host, source in zip(self._inputs, self._host_inputs, sources, strict=True):
            host.copy_(torch.from_numpy(source))
            device_side.copy_(host, non_blocking=True)
        self._launch[self._cut_for(frames.positions)]()
        self._host_output.copy_(self._output, non_blocking=True)
        if self._output.is_cuda:
            torch.cuda.current_stream().synchronize()
        packed: NDArray[np.float32] = self._host_output.numpy()
        return packed

    def commit(self, rows: range, frames: StepInput) -> None:
        assert len(rows) == self._slots
        self._adopt()

    def _cut_for(self, positions: Sequence[int]) -> int:
        longest = max(positions)
        return next((cut for cut in self._cuts if longest < cut), self._cuts[-1])

    def _run(self, cut: int) -> None:
        """One step as if the longest call were about to fill the last cell of the cut."""
        pcm, _, held = self._inputs
        positions = [cut - 1] * self._slots
        output = self._step.step(range(self._slots), pcm, held, positions)
        self._output.copy_(pack(output))

    def _commit(self) -> None:
        self._step.commit(range(self._slots), self._inputs[1])

    def _made(self, work: Callable[[], None]) -> Callable[[], None]:
        return work if self._pool is None else self._capture(work).replay

    def _capture(self, work: Callable[[], None]) -> torch.cuda.CUDAGraph:
        """Warm up on a side stream, as capture demands, then record the work once."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(CAPTURE_WARMUPS):
                work()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            work()
        return graph


def capture_or_eager(
    step: FrameStep, device: torch.device, *, graph: bool = True, cut: bool = True
) -> tuple[PackedStep, str]:
    """The fastest faithful form on `device` and its name; a failed capture is told loudly.

    Without `cut` rings are read whole at any age of the calls.
    """
    eager, name = EagerStep(step, device, cut=cut), "" if cut else ", whole rings"
    if device.type != "cuda" or not graph:
        return eager, f"eager{name}"
    cuts = ring_cuts(step.capacity) if cut else (step.capacity,)
    try:
        static = StaticStep(step, device, cuts)
    except RuntimeError as error:
        log.error("CUDA GRAPH CAPTURE FAILED, steps run eagerly and far slower: %s", error)
        torch.cuda.synchronize()
        return eager, f"eager (capture failed){name}"
    if not replays_equally(EagerStep(step, device), static, step.slots, cuts):
        log.error("the captured step differs from the eager one; steps run eagerly, far slower")
        return eager, f"eager (replay differs){name}"
    return static, f"cuda graph{name}"


def replays_equally(eager: PackedStep, static: PackedStep, slots: int, cuts: Sequence[int]) -> bool:
    """Bit for bit at each cut, on idle steps: they compute every row and commit none."""
    return all(
        np.array_equal(eager(range(slots), frames), static(range(slots), frames), equal_nan=True)
        for frames in (_idle(slots, cut - 1) for cut in cuts)
    )


def _idle(slots: int, position: int) -> StepInput:
    return StepInput(
        pcm=np.full((slots, FRAME_SAMPLES), 0.01, np.float32),
        stepped=np.zeros(slots, np.bool_),
        held=np.zeros(slots, np.bool_),
        positions=[position] * slots,
    )


def _buffers(
    slots: int, device: torch.device, *, pinned: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """PCM `[B, 1920]`, stepped `[B]`, held `[B]`."""
    shapes: tuple[tuple[tuple[int, ...], torch.dtype], ...] = (
        ((slots, FRAME_SAMPLES), torch.float32),
        ((slots,), torch.bool),
        ((slots,), torch.bool),
    )
    pcm, stepped, held = (
        torch.zeros(shape, dtype=dtype, device=device, pin_memory=pinned) for shape, dtype in shapes
    )
    return pcm, stepped, held
