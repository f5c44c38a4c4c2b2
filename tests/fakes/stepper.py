"""A deterministic stand-in for the device: a stepper whose rows are small integer histories.

Each slot's state is a number that folds in its prefix, its frames and its hold mask; the output of
a row shows that number. Faults, bad rows and failing cleanups can be scripted.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from model.core import FRAME_SAMPLES, Sampling, SessionSpec
from model.stepper import StepInput, StepOutput

CHUNK = 64


@dataclass(frozen=True)
class FakePrompt:
    spec: SessionSpec
    positions: int


@dataclass(frozen=True)
class FakePrefix:
    positions: int
    nbytes: int
    state: int


def fold(state: int, *values: object) -> int:
    return zlib.crc32(repr((state, values)).encode())


@dataclass
class FakePrefill:
    prompt: FakePrompt
    log: list[str]
    done: int = 0

    def advance(self) -> FakePrefix | None:
        self.log.append("chunk")
        self.done += CHUNK
        if self.done < self.prompt.positions:
            return None
        state = fold(0, self.prompt.spec.voice, self.prompt.spec.persona)
        return FakePrefix(self.prompt.positions, 8 * self.prompt.positions, state)


@dataclass
class FakeStepper:
    """`raises` holds exceptions for the coming steps, `None` for one that works."""

    slots: int = 2
    fixed_rows: bool = False
    mode: str = "fake"
    slot_bytes: int = 1
    log: list[str] = field(default_factory=list)
    raises: list[Exception | None] = field(default_factory=list)
    not_finite: set[int] = field(default_factory=set)
    cleanups_that_fail: int = 0
    states: dict[int, int] = field(default_factory=dict)
    computed: list[range] = field(default_factory=list)
    stepped: list[tuple[int, ...]] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return self.slots

    def begin_prefill(self, prompt: FakePrompt) -> FakePrefill:
        return FakePrefill(prompt, self.log)

    def admit(self, slot: int, prefix: FakePrefix, sampling: Sampling | None) -> None:
        assert slot not in self.states, "a slot is clean before it is admitted"
        self.log.append(f"admit {slot}")
        self.states[slot] = fold(prefix.state, sampling)

    def release(self, slot: int) -> None:
        if self.cleanups_that_fail:
            self.cleanups_that_fail -= 1
            raise RuntimeError("cleanup refused")
        self.log.append(f"release {slot}")
        self.states.pop(slot, None)

    def step(self, rows: range, frames: StepInput) -> StepOutput:
        self.log.append("step")
        if self.raises and (error := self.raises.pop(0)) is not None:
            raise error
        stepped = tuple(int(slot) for slot in np.flatnonzero(frames.stepped))
        assert set(stepped) <= set(rows)
        self.computed.append(rows)
        self.stepped.append(stepped)
        for slot in stepped:
            pcm, held = frames.pcm[slot], bool(frames.held[slot])
            self.states[slot] = fold(self.states[slot], pcm.tobytes(), held)
        return self._output(stepped)

    def _output(self, stepped: tuple[int, ...]) -> StepOutput:
        output = StepOutput(
            pcm=np.zeros((self.slots, FRAME_SAMPLES), np.float32),
            text=np.full(self.slots, 3, np.int64),
            codes=np.zeros((self.slots, 8), np.int64),
            finite=np.ones(self.slots, np.bool_),
        )
        for slot in stepped:
            output.pcm[slot] = self.states[slot] % 1000 / 1000
            output.text[slot] = self.states[slot] % 100
            output.codes[slot] = self.states[slot] % 7
            output.finite[slot] = slot not in self.not_finite
        return output


def fake_reader(lengths: dict[str, int], reads: list[str]) -> Callable[[SessionSpec], FakePrompt]:
    """Prompts whose length depends on the voice; each reading is noted in `reads`."""

    def read(spec: SessionSpec) -> FakePrompt:
        reads.append(spec.voice)
        return FakePrompt(spec, lengths[spec.voice])

    return read
