"""The engine's own thread: racing callers, a busy device, a clean end. Waits have timeouts."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from queue import Queue

import pytest

from model.core import (
    Bound,
    CallFailed,
    EngineEvent,
    EngineFault,
    FrameResult,
    Handle,
    Released,
    ResourceExhausted,
)
from model.engine import ModelFacts, ServingEngine
from model.stepper import StepInput, StepOutput
from tests.fakes.stepper import FakePrefix, FakePrompt, FakeStepper, fake_reader
from tests.unit.model.engine.harness import LENGTHS, A, B, frame

pytestmark = pytest.mark.unit
TIMEOUT = 20.0


class BusyStepper(FakeStepper):
    """A step lasts until the test lets it end."""

    started: threading.Event
    may_end: threading.Event

    def step(self, rows: range, frames: StepInput) -> StepOutput:
        self.started.set()
        assert self.may_end.wait(TIMEOUT)
        return super().step(rows, frames)


def started(stepper: FakeStepper, reads: list[str]) -> ServingEngine[FakePrompt, FakePrefix]:
    engine = ServingEngine(
        stepper,
        fake_reader(dict(LENGTHS), reads),
        lambda: str,
        ModelFacts(tuple(sorted(LENGTHS)), A, context=400),
        prefix_bytes=1 << 20,
    )
    engine.start()
    return engine


def next_of(events: Queue[EngineEvent], kind: type) -> EngineEvent:
    event = events.get(timeout=TIMEOUT)
    while not isinstance(event, kind):
        event = events.get(timeout=TIMEOUT)
    return event


# contract: B7, A2
@pytest.mark.parametrize("slots", [3, 8])
def test_eight_threads_racing_for_the_slots_and_one_pair(slots: int) -> None:
    reads: list[str] = []
    engine = started(FakeStepper(slots), reads)
    gate = threading.Barrier(8)
    events: list[Queue[EngineEvent]] = [Queue() for _ in range(8)]

    def race(index: int) -> Handle | None:
        gate.wait(TIMEOUT)
        try:
            handle = engine.open(events[index].put)
        except ResourceExhausted:
            return None
        engine.bind(handle, B)
        return handle

    with ThreadPoolExecutor(8) as pool:
        handles = list(pool.map(race, range(8)))
    winners = [(h, e) for h, e in zip(handles, events, strict=True) if h is not None]
    assert len(winners) == slots and {h.slot for h, _ in winners} == set(range(slots))
    for _, queue in winners:
        next_of(queue, Bound)
    assert reads == ["b.pt"] and engine.stats().prefills == 1
    engine.shutdown()


# contract: I1
def test_no_method_waits_for_a_busy_device() -> None:
    stepper = BusyStepper(2)
    stepper.started, stepper.may_end = threading.Event(), threading.Event()
    engine = started(stepper, [])
    events: Queue[EngineEvent] = Queue()
    handle = engine.open(events.put)
    engine.bind(handle, A)
    engine.submit(handle, 0, 1, frame())
    assert stepper.started.wait(TIMEOUT)
    engine.submit(handle, 0, 2, frame())
    engine.hold(handle, True)
    other = engine.open(events.put)
    engine.close(other)
    assert engine.stats().used == 2 and engine.stats().steps == 0
    assert engine.restart(handle) == 1
    stepper.may_end.set()
    assert next_of(events, Released)
    bound = next_of(events, Bound)
    assert isinstance(bound, Bound) and bound.epoch == 1
    engine.submit(handle, 1, 1, frame())
    result = next_of(events, FrameResult)
    assert isinstance(result, FrameResult) and (result.epoch, result.seq) == (1, 1)
    engine.shutdown()


# contract: J2
def test_shutdown_tells_open_calls_and_ends_the_thread() -> None:
    engine = started(FakeStepper(2), [])
    events: Queue[EngineEvent] = Queue()
    engine.open(events.put)
    engine.shutdown()
    failed = next_of(events, CallFailed)
    assert isinstance(failed, CallFailed) and failed.code == "engine_fault"
    assert isinstance(engine.prepare(A).exception(timeout=0), EngineFault)
    assert not engine._thread.is_alive()
