"""A scripted engine at the interface of the real one, without a thread and without a model.

It steps on the loop it was made on: after `step_s` a waiting frame is answered with what the
script says for it. With `step_s=None` nothing is stepped until `step()` is called. The same
contract test runs on this and on the real engine.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

import numpy as np

from model import (
    FRAME_SAMPLES,
    Bound,
    CallFailed,
    Deliver,
    EngineEvent,
    EngineFault,
    EngineStats,
    FrameResult,
    Handle,
    InputOverflow,
    InvalidVoice,
    Pcm,
    PromptTooLong,
    Released,
    ResourceExhausted,
    SessionSpec,
)

PAD = 3
SILENT_CODES = (7,) * 8
SQUARE = np.where(np.arange(FRAME_SAMPLES) // 40 % 2, 1.0, -1.0).astype(np.float32)
"""300 Hz; its RMS is its amplitude, and Opus lets it through."""


@dataclass(frozen=True, slots=True)
class Said:
    """What the agent says in one frame."""

    text: str = ""
    token: int = PAD
    amplitude: float = 0.0


Script = Callable[[int, int, Pcm], Said]
"""(epoch, seq, input) to what is said; held frames never ask it."""


def quiet(epoch: int, seq: int, pcm: Pcm) -> Said:
    return Said()


def talkative(epoch: int, seq: int, pcm: Pcm) -> Said:
    return Said(f" w{seq}", 100 + seq % 1000, 0.1)


@dataclass
class _Call:
    deliver: Deliver
    bound_limit: int
    generation: int
    epoch: int = 0
    spec: SessionSpec | None = None
    ready: bool = False
    held: bool = False
    closing: bool = False
    last_seq: int = 0
    position: int = 0
    queue: deque[tuple[int, int, Pcm]] = field(default_factory=deque)


class FakeEngine:
    """Implements `model.Engine`."""

    def __init__(
        self,
        max_sessions: int = 2,
        script: Script = talkative,
        *,
        step_s: float | None = 0.001,
        prefill_s: float = 0.0,
        cleanup_failures: int = 0,
        cleanup_retry_s: float = 5.0,
    ) -> None:
        self.script = script
        self.step_s = step_s
        self.prefill_s = prefill_s
        self.cleanup_failures = cleanup_failures
        self.cleanup_retry_s = cleanup_retry_s
        self.fail_submits: Callable[[], bool] = lambda: False
        self.faulted = False
        self.stepped: list[tuple[int, int, int, int]] = []
        """(slot, generation, epoch, seq) of every frame that was stepped."""
        self.heard: list[Pcm] = []
        self.prepared: list[SessionSpec] = []
        self.cleanups = 0
        self.releases = 0
        self.undelivered = 0
        self._max = max_sessions
        self._calls: dict[int, _Call] = {}
        self._generations = 0
        self._loop = asyncio.get_running_loop()

    # The interface.

    @property
    def max_sessions(self) -> int:
        return self._max

    @property
    def voices(self) -> tuple[str, ...]:
        return ("NATF2.pt", "NATM1.pt")

    @property
    def default_spec(self) -> SessionSpec:
        return SessionSpec("NATF2.pt", "You are a wise and friendly teacher.")

    @property
    def context(self) -> int:
        return 3000

    def positions(self, spec: SessionSpec) -> int:
        return 50 + len(spec.persona)

    def prepare(self, spec: SessionSpec) -> Future[int]:
        future: Future[int] = Future()
        if spec.voice not in self.voices:
            future.set_exception(InvalidVoice(f"no voice named {spec.voice}"))
        elif self.positions(spec) > self.context // 2:
            future.set_exception(PromptTooLong(self.positions(spec), self.context // 2))
        else:
            self.prepared.append(spec)
            future.set_result(self.positions(spec))
        return future

    def open(self, deliver: Deliver, *, queue_frames: int = 25) -> Handle:
        if self.faulted:
            raise EngineFault("the device failed")
        slot = next((i for i in range(self._max) if i not in self._calls), None)
        if slot is None:
            raise ResourceExhausted(len(self._calls), self._max)
        self._generations += 1
        self._calls[slot] = _Call(deliver, queue_frames, self._generations)
        return Handle(slot, self._generations)

    def bind(self, handle: Handle, spec: SessionSpec) -> None:
        if spec.voice not in self.voices:
            raise InvalidVoice(f"no voice named {spec.voice}")
        call = self._call(handle)
        if call is not None and call.spec is None:
            call.spec = spec
            self._later(self.prefill_s, self._prefilled, handle, call.epoch)

    def submit(self, handle: Handle, epoch: int, seq: int, pcm: Pcm) -> None:
        call = self._call(handle)
        if call is None or epoch != call.epoch or seq <= call.last_seq:
            return
        if len(call.queue) >= call.bound_limit or self.fail_submits():
            raise InputOverflow("the queue is full")
        assert seq == call.last_seq + 1 and pcm.shape == (FRAME_SAMPLES,)
        call.last_seq = seq
        call.queue.append((epoch, seq, pcm.copy()))
        if self.step_s is not None:
            self._later(self.step_s, self._step_call, handle)

    def restart(self, handle: Handle) -> int:
        call = self._call(handle)
        if call is None:
            return 0
        call.epoch += 1
        call.queue.clear()
        call.last_seq = 0
        call.ready = call.held = False
        if call.spec is not None:
            self._later(self.prefill_s, self._prefilled, handle, call.epoch)
        return call.epoch

    def hold(self, handle: Handle, held: bool) -> None:
        call = self._call(handle)
        if call is not None:
            call.held = held

    def close(self, handle: Handle) -> None:
        call = self._call(handle)
        if call is not None:
            call.closing = True
            call.queue.clear()
            self._later(0.0, self._clean_up, handle, call)

    def stats(self) -> EngineStats:
        return EngineStats(
            max_sessions=self._max,
            used=len(self._calls),
            steps=len(self.stepped),
            frames=len(self.stepped),
            encoded=len(self.stepped),
            prefills=len(set(self.prepared)),
            prefix_hits=0,
            voice_reads=len({spec.voice for spec in self.prepared}),
            bucket_changes=0,
            retried_steps=0,
            failed_rows=0,
            undelivered=self.undelivered,
            step_p50_s=0.001,
            step_p99_s=0.001,
            prefix_bytes=0,
            faulted=self.faulted,
        )

    # What a test does to it.

    def step(self, frames: int = 1) -> None:
        """Answer so many waiting frames of every call."""
        for _ in range(frames):
            for slot, call in list(self._calls.items()):
                self._step_call(Handle(slot, call.generation))

    def fail(self, code: str, message: str = "scripted") -> None:
        """Every call fails; `engine_fault` is a fault of the device."""
        self.faulted = self.faulted or code == "engine_fault"
        for call in list(self._calls.values()):
            self._deliver(call, CallFailed(call.epoch, code, message))

    def repeat(self, result: FrameResult) -> None:
        """Deliver a result once more, as a faulty engine would."""
        for call in list(self._calls.values()):
            self._deliver(call, result)

    # Inside.

    def _call(self, handle: Handle) -> _Call | None:
        call = self._calls.get(handle.slot)
        alive = call is not None and call.generation == handle.generation and not call.closing
        return call if alive else None

    def _later(self, delay: float, action: Callable[..., None], *args: object) -> None:
        if delay:
            self._loop.call_later(delay, action, *args)
        else:
            self._loop.call_soon(action, *args)

    def _prefilled(self, handle: Handle, epoch: int) -> None:
        call = self._call(handle)
        if call is None or call.epoch != epoch or call.spec is None:
            return
        call.ready = True
        call.position = self.positions(call.spec)
        self._deliver(call, Bound(epoch, call.position))
        if self.step_s is not None:
            for _ in range(len(call.queue)):
                self._later(self.step_s, self._step_call, handle)

    def _step_call(self, handle: Handle) -> None:
        call = self._call(handle)
        if call is None or not call.ready or not call.queue:
            return
        epoch, seq, pcm = call.queue.popleft()
        said = Said() if call.held else self.script(epoch, seq, pcm)
        self.stepped.append((handle.slot, handle.generation, epoch, seq))
        self.heard.append(pcm)
        sound = np.float32(said.amplitude) * SQUARE
        codes = SILENT_CODES if call.held else (seq % 50,) * 8
        result = FrameResult(
            epoch, seq, call.position, sound, said.text, said.token, codes, call.held
        )
        call.position += 1
        self._deliver(call, result)

    def _clean_up(self, handle: Handle, call: _Call) -> None:
        self.cleanups += 1
        if self.cleanup_failures > 0:
            self.cleanup_failures -= 1
            self._later(self.cleanup_retry_s, self._clean_up, handle, call)
            return
        assert self._calls.pop(handle.slot) is call
        self.releases += 1
        self._deliver(call, Released())

    def _deliver(self, call: _Call, event: EngineEvent) -> None:
        try:
            call.deliver(event)
        except RuntimeError:
            self.undelivered += 1
