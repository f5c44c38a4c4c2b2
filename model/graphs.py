"""One call of the whole step: eager for any rows, or from fixed addresses as one CUDA graph.

Both return the same packed host array, so that a GPU step has exactly one copy back. The eager
form is the reference. Knows nothing of what the step computes.
"""

from __future__ import annotations

import logging
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


class PackedStep(Protocol):
    """Steps `rows` and returns their packed rows `[R, WIDTH]` on the host."""

    def __call__(self, rows: range, frames: StepInput) -> NDArray[np.float32]: ...


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
    """The reference: copies in, one plain call, one copy back."""

    def __init__(self, step: FrameStep, device: torch.device) -> None:
        self._step, self._device = step, device

    def __call__(self, rows: range, frames: StepInput) -> NDArray[np.float32]:
        section = slice(rows.start, rows.stop)
        pcm, stepped, held = (
            torch.from_numpy(array[section]).to(self._device)
            for array in (frames.pcm, frames.stepped, frames.held)
        )
        positions = frames.positions[section]
        if frames.codes is None:
            output = self._step.step(rows, pcm, stepped, held, positions)
        else:
            user = torch.from_numpy(frames.codes[section]).to(self._device)
            output = self._step.step_codes(rows, user, stepped, held, positions)
        packed: NDArray[np.float32] = pack(output).cpu().numpy()
        return packed


class StaticStep:
    """All slots from and to fixed addresses: captured on CUDA, called plainly elsewhere.

    Nothing is stepped while capturing, so that the slots' state stays as it was.
    """

    def __init__(self, step: FrameStep, device: torch.device) -> None:
        self._step, self._slots = step, step.slots
        self._inputs = _buffers(step.slots, device)
        self._host_inputs = _buffers(step.slots, torch.device("cpu"), pinned=device.type == "cuda")
        self._graph = torch.cuda.CUDAGraph() if device.type == "cuda" else None
        self._output = self._capture() if self._graph else self._run()
        self._host_output = torch.zeros(
            self._output.shape, pin_memory=self._output.device.type == "cuda"
        )

    def __call__(self, rows: range, frames: StepInput) -> NDArray[np.float32]:
        assert len(rows) == self._slots and frames.codes is None
        sources = (frames.pcm, frames.stepped, frames.held)
        for device_side, host, source in zip(self._inputs, self._host_inputs, sources, strict=True):
            host.copy_(torch.from_numpy(source))
            device_side.copy_(host, non_blocking=True)
        if self._graph:
            self._graph.replay()
        else:
            self._output = self._run()
        self._host_output.copy_(self._output, non_blocking=True)
        if self._graph:
            torch.cuda.current_stream().synchronize()
        packed: NDArray[np.float32] = self._host_output.numpy()
        return packed

    def _run(self) -> Tensor:
        pcm, stepped, held = self._inputs
        return pack(self._step.step(range(self._slots), pcm, stepped, held))

    def _capture(self) -> Tensor:
        """Warm up on a side stream, as capture demands, then record one step."""
        assert self._graph is not None
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(CAPTURE_WARMUPS):
                self._run()
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self._graph):
            return self._run()


def capture_or_eager(
    step: FrameStep, device: torch.device, *, graph: bool = True
) -> tuple[PackedStep, str]:
    """The fastest faithful form on `device` and its name; a failed capture is told loudly."""
    if device.type != "cuda" or not graph:
        return EagerStep(step, device), "eager"
    eager = EagerStep(step, device)
    try:
        static = StaticStep(step, device)
    except RuntimeError as error:
        log.error("CUDA GRAPH CAPTURE FAILED, steps run eagerly and far slower: %s", error)
        torch.cuda.synchronize()
        return eager, "eager (capture failed)"
    if not _replays_equally(eager, static, step.slots):
        log.error("the captured step differs from the eager one; steps run eagerly, far slower")
        return eager, "eager (replay differs)"
    return static, "cuda graph"


def _replays_equally(eager: PackedStep, static: PackedStep, slots: int) -> bool:
    """Bit for bit, on an idle step: it computes every row and commits none."""
    frames = StepInput(
        pcm=np.full((slots, FRAME_SAMPLES), 0.01, np.float32),
        stepped=np.zeros(slots, np.bool_),
        held=np.zeros(slots, np.bool_),
        positions=[0] * slots,
    )
    rows = range(slots)
    return np.array_equal(eager(rows, frames), static(rows, frames), equal_nan=True)


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
