"""An engine on the fake stepper, driven tick by tick on a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from model.core import (
    FRAME_SAMPLES,
    FRAME_SECONDS,
    Bound,
    CallFailed,
    EngineEvent,
    FrameResult,
    Handle,
    Pcm,
    Released,
    SessionSpec,
)
from model.engine import ModelFacts, ServingEngine
from tests.fakes.stepper import FakePrefix, FakePrompt, FakeStepper, fake_reader

T = TypeVar("T")
A, B = SessionSpec("a.pt", "teacher"), SessionSpec("b.pt", "clerk")
LENGTHS = {"a.pt": 40, "b.pt": 200}


@dataclass
class ManualClock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


class Inline(Executor):
    """Runs what is submitted at once, or keeps it for `run_all` while `held`."""

    def __init__(self) -> None:
        self.held = False
        self._kept: list[Callable[[], None]] = []

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()
        self._kept.append(lambda: future.set_result(fn(*args, **kwargs)))
        if not self.held:
            self.run_all()
        return future

    def run_all(self) -> None:
        while self._kept:
            self._kept.pop(0)()


@dataclass
class Caller:
    """One call's client: submits frames and keeps what it hears."""

    engine: ServingEngine[FakePrompt, FakePrefix]
    handle: Handle = field(init=False)
    epoch: int = 0
    seq: int = 0
    events: list[EngineEvent] = field(default_factory=list)

    def open(self, spec: SessionSpec | None = None, queue_frames: int = 25) -> Caller:
        self.handle = self.engine.open(self.events.append, queue_frames=queue_frames)
        if spec is not None:
            self.engine.bind(self.handle, spec)
        return self

    def submit(self, value: float = 0.0) -> None:
        self.engine.submit(self.handle, self.epoch, self.seq + 1, frame(value))
        self.seq += 1

    def restart(self) -> None:
        self.epoch, self.seq = self.engine.restart(self.handle), 0

    def close(self) -> None:
        self.engine.close(self.handle)

    @property
    def results(self) -> list[FrameResult]:
        return [event for event in self.events if isinstance(event, FrameResult)]

    @property
    def bound(self) -> list[Bound]:
        return [event for event in self.events if isinstance(event, Bound)]

    @property
    def failures(self) -> list[CallFailed]:
        return [event for event in self.events if isinstance(event, CallFailed)]

    @property
    def released(self) -> int:
        return sum(isinstance(event, Released) for event in self.events)

    def heard(self) -> list[tuple[int, tuple[int, ...], float]]:
        return [(r.text_token, r.codes, float(r.pcm[0])) for r in self.results]


@dataclass
class Rig:
    """The engine with everything a test may want to reach into."""

    slots: int = 2
    prefix_bytes: int = 1 << 20
    fixed_rows: bool = False
    lengths: dict[str, int] = field(default_factory=lambda: dict(LENGTHS))
    clock: ManualClock = field(default_factory=ManualClock)
    reader: Inline = field(default_factory=Inline)
    reads: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.stepper = FakeStepper(self.slots)
        self.engine = ServingEngine(
            self.stepper,
            fake_reader(self.lengths, self.reads),
            lambda: str,
            ModelFacts(tuple(sorted(self.lengths)), A, context=400),
            prefix_bytes=self.prefix_bytes,
            fixed_rows=self.fixed_rows,
            clock=self.clock,
            reader=self.reader,
        )

    def caller(self, spec: SessionSpec | None = A, queue_frames: int = 25) -> Caller:
        return Caller(self.engine).open(spec, queue_frames)

    def seated(self, *specs: SessionSpec) -> list[Caller]:
        callers = [self.caller(spec) for spec in specs]
        self.ticks(2 + sum(self.lengths[spec.voice] // 64 + 1 for spec in specs))
        assert all(caller.bound for caller in callers)
        return callers

    def ticks(self, count: int) -> None:
        for _ in range(count):
            self.engine.tick()

    def frame_time(self) -> None:
        self.clock.now += FRAME_SECONDS

    def round(self, *callers: Caller, value: float = 0.0) -> None:
        """One frame of each, stepped together, and 80 ms pass."""
        for caller in callers:
            caller.submit(value)
        self.engine.tick()
        self.frame_time()


def frame(value: float = 0.0) -> Pcm:
    return np.full(FRAME_SAMPLES, value, np.float32)
