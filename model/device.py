"""The real `Stepper`: the frame step of all slots on one device, with its prefixes and clean-ups.

Everything here runs in the engine's thread. Wrapped round the eager reference; what speeds it up
stands in `model/graphs.py` and in how the weights were prepared.
"""

from __future__ import annotations

import torch

from model.core import Sampling
from model.faults import DeviceFault
from model.graphs import PackedStep, capture_or_eager, unpack
from model.prefill import Prefill, Prefix
from model.prompt import Prompt
from model.selftest import cuts_agree
from model.step import FrameStep
from model.stepper import StepInput, StepOutput


class DeviceStepper:
    """Slots on a device; `slots` of the step's, where it computes more rows than it gives out.

    `poison` fills released slots with NaN, as tests do (contract I6). Without `graph` a GPU runs
    the eager reference. `cut` says whether rings are read no further than the longest call needs,
    or whole; where nothing is said, the device is asked whether that would be heard.
    """

    def __init__(
        self,
        step: FrameStep,
        device: torch.device,
        *,
        slots: int | None = None,
        form: str = "plain",
        poison: bool = False,
        graph: bool = True,
        cut: bool | None = None,
    ) -> None:
        self.frame_step, self._poison = step, poison
        self.cut = cuts_agree(step) if cut is None else cut
        self.slots = step.slots if slots is None else slots
        self.rows = step.slots
        self.fixed_rows = device.type == "cuda"
        with torch.inference_mode():
            self._step, launch = capture_or_eager(step, device, graph=graph, cut=self.cut)
        self.mode = f"{device.type}, {form}, {launch}"
        self.slot_bytes = sum(tensor.nbytes for tensor in step.state_tensors(0).values())

    def begin_prefill(self, prompt: Prompt) -> Prefill:
        return self.frame_step.begin_prefill(prompt)

    @torch.inference_mode()
    def admit(self, slot: int, prefix: Prefix, sampling: Sampling | None) -> None:
        self.frame_step.admit(slot, prefix, sampling)

    @torch.inference_mode()
    def release(self, slot: int) -> None:
        if self._poison:
            self.frame_step.poison(slot)
        else:
            self.frame_step.reset(slot)

    def step(self, rows: range, frames: StepInput) -> StepOutput:
        return step_and_commit(self._step, rows, frames, self.rows)


@torch.inference_mode()
def step_and_commit(step: PackedStep, rows: range, frames: StepInput, total: int) -> StepOutput:
    """Commits last, once the answer lies on the host: what raises before changed nothing.

    A commit that raises may have adopted one part of the state and not the rest, which no second
    try could mend. So it is a `DeviceFault` at once.
    """
    output = unpack(step(rows, frames), rows, total)
    try:
        step.commit(rows, frames)
    except Exception as error:
        raise DeviceFault(f"a commit broke off: {error}") from error
    return output
