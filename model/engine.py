"""The engine: one thread that owns the device and steps all live calls together.

A tick admits calls whose prefix is ready, gathers their waiting frames, runs one step, hands the
results out and retires slots that were given back. Event loops reach it through `SlotTable` and
never wait for it; it never awaits. What a step computes is the stepper's affair
(`model/stepper.py`), when it starts is the scheduler's (`model/scheduler.py`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic

import numpy as np

from model.core import (
    FRAME_SAMPLES,
    Deliver,
    EngineFault,
    EngineStats,
    FrameResult,
    Handle,
    InvalidVoice,
    Pcm,
    SessionSpec,
)
from model.faults import run_twice
from model.lifecycle import Lifecycle
from model.meters import Meters
from model.prefix import Prefills, PrefixCache
from model.scheduler import rows_computed, step_start
from model.slots import Call, Frame, Phase, SlotTable, Transcript
from model.stepper import PrefixT, PromptT, StepInput, StepOutput, Stepper

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What the checkpoint says of itself, as far as calls are concerned."""

    voices: tuple[str, ...]
    default_spec: SessionSpec
    context: int


@dataclass(frozen=True, slots=True)
class _Member:
    """One call's part in a step, as it stood when the step was gathered."""

    call: Call
    epoch: int
    frame: Frame
    held: bool


@dataclass(frozen=True, slots=True)
class _Batch:
    members: list[_Member]
    rows: range
    frames: StepInput


class ServingEngine(Generic[PromptT, PrefixT]):
    """The `Engine` of `model/core.py`. `start` it, or drive `tick` by hand as tests do."""

    def __init__(
        self,
        stepper: Stepper[PromptT, PrefixT],
        read_prompt: Callable[[SessionSpec], PromptT],
        new_transcript: Callable[[], Transcript],
        facts: ModelFacts,
        *,
        prefix_bytes: int,
        fixed_rows: bool = False,
        clock: Callable[[], float] = time.monotonic,
        reader: Executor | None = None,
    ) -> None:
        self._stepper, self._facts, self._clock = stepper, facts, clock
        self._fixed_rows = fixed_rows or stepper.fixed_rows
        self._meters = Meters()
        self._table = SlotTable(stepper.slots, clock)
        self._reader = reader or ThreadPoolExecutor(1, thread_name_prefix="prompt-reader")
        self._prefills = Prefills(
            read_prompt,
            stepper.begin_prefill,
            PrefixCache[PrefixT](prefix_bytes),
            self._reader,
            self._table.wake,
            limit=facts.context // 2,
        )
        self._calls = Lifecycle(
            self._table, stepper, self._prefills, new_transcript, self._meters, clock
        )
        self._rows: range | None = None
        self._stepped_last = False
        self._fault: EngineFault | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    # ---- the Engine protocol: any thread ---------------------------------------------------

    @property
    def max_sessions(self) -> int:
        return self._table.max_sessions

    @property
    def voices(self) -> tuple[str, ...]:
        return self._facts.voices

    @property
    def default_spec(self) -> SessionSpec:
        return self._facts.default_spec

    @property
    def context(self) -> int:
        return self._facts.context

    def prepare(self, spec: SessionSpec) -> Future[int]:
        refusal = self._fault if spec.voice in self.voices else _unknown_voice(spec)
        if refusal is None:
            return self._calls.prepare(spec)
        refused: Future[int] = Future()
        refused.set_exception(refusal)
        return refused

    def open(self, deliver: Deliver, *, queue_frames: int = 25) -> Handle:
        if self._fault is not None:
            raise EngineFault(str(self._fault))
        return self._table.open(deliver, queue_frames)

    def bind(self, handle: Handle, spec: SessionSpec) -> None:
        if spec.voice not in self.voices:
            raise _unknown_voice(spec)
        self._table.bind(handle, spec)

    def submit(self, handle: Handle, epoch: int, seq: int, pcm: Pcm) -> None:
        self._table.submit(handle, epoch, seq, pcm)

    def restart(self, handle: Handle) -> int:
        return self._table.restart(handle)

    def hold(self, handle: Handle, held: bool) -> None:
        self._table.hold(handle, held)

    def close(self, handle: Handle) -> None:
        self._table.close(handle)

    def stats(self) -> EngineStats:
        return EngineStats(
            max_sessions=self.max_sessions,
            used=self._table.used,
            waiting_frames=self._table.waiting_frames,
            prefills=self._prefills.completed,
            prefill_chunks=self._prefills.chunks,
            voice_reads=self._prefills.reads,
            prefix_bytes=self._prefills.cache_bytes,
            faulted=self._fault is not None,
            mode=self._stepper.mode,
            slot_bytes=self._stepper.slot_bytes,
            **self._meters.snapshot(),
        )

    # ---- the thread ------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def shutdown(self) -> None:
        """Stop the thread and let nobody wait: calls still open get `engine_fault`."""
        self._stopping.set()
        self._table.wake()
        if self._thread.is_alive():
            self._thread.join()
        self._fault = self._fault or EngineFault("the engine was shut down")
        self._calls.abandon(self._fault)
        self._reader.shutdown(wait=False, cancel_futures=True)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.tick()
            self._table.wait_until(self._next_instant())

    def tick(self) -> None:
        """One turn of the thread; a device fault ends every call and all further turns."""
        if self._fault is not None:
            self._calls.abandon(self._fault)
            return
        try:
            self._turn()
        except Exception as error:
            log.critical("device fault: %s", error, exc_info=error)
            self._fault = EngineFault(str(error))
            self._calls.abandon(self._fault)

    def _turn(self) -> None:
        self._calls.admit()
        batch = self._gather()
        if batch is None:
            self._prefill()
        else:
            self._scatter(batch, self._forward(batch))
        self._calls.retire()

    def _next_instant(self) -> float | None:
        """When there is something to do, if nobody calls before."""
        if self._fault is not None:
            return None
        now = self._clock()
        if self._prefills.pending:
            return now
        instants = (self._step_start(now), self._calls.next_retry())
        return min((instant for instant in instants if instant is not None), default=None)

    # ---- gather ----------------------------------------------------------------------------

    def _gather(self) -> _Batch | None:
        """The due step's frames. After a step, a waiting chunk of prefill goes first."""
        if self._stepped_last and self._prefills.pending:
            return None
        now = self._clock()
        start = self._step_start(now)
        if start is None or start > now:
            return None
        members = self._take_frames()
        return self._batch(members) if members else None

    def _step_start(self, now: float) -> float | None:
        with self._table.lock:
            timings = [call.timing() for call in self._table.calls(Phase.LIVE)]
        return step_start(now, timings, self._meters.p50_s)

    def _take_frames(self) -> list[_Member]:
        with self._table.lock:
            taken = [
                _Member(call, call.epoch, call.waiting.popleft(), call.held)
                for call in self._table.calls(Phase.LIVE)
                if call.waiting
            ]
        return [member for member in taken if self._usable(member)]

    def _usable(self, member: _Member) -> bool:
        """A bad frame fails its call before the batch sees it (contract I5)."""
        pcm = member.frame.pcm
        if pcm.shape == (FRAME_SAMPLES,) and np.isfinite(pcm).all():
            return True
        reason = f"frame {member.frame.seq} is not {FRAME_SAMPLES} finite samples"
        self._calls.fail(member.call, member.epoch, "invalid_frame", reason)
        return False

    def _batch(self, members: list[_Member]) -> _Batch:
        rows = self._stepper.rows
        frames = StepInput(
            pcm=np.zeros((rows, FRAME_SAMPLES), np.float32),
            stepped=np.zeros(rows, np.bool_),
            held=np.zeros(rows, np.bool_),
            positions=[0] * rows,
        )
        for member in members:
            slot = member.call.slot
            frames.pcm[slot] = member.frame.pcm
            frames.stepped[slot], frames.held[slot] = True, member.held
        live = self._table.calls(Phase.LIVE)
        for call in live:
            frames.positions[call.slot] = call.position
        slots_in_use = sorted({call.slot for call in live} | {m.call.slot for m in members})
        return _Batch(members, self._choose_rows(slots_in_use), frames)

    def _choose_rows(self, in_use: list[int]) -> range:
        rows = rows_computed(in_use, self._stepper.rows, fixed=self._fixed_rows)
        if self._rows is not None and len(rows) != len(self._rows):
            self._meters.bucket_changes += 1
        self._rows = rows
        return rows

    # ---- forward, scatter ------------------------------------------------------------------

    def _forward(self, batch: _Batch) -> StepOutput:
        began = time.perf_counter()
        output = run_twice(
            lambda: self._stepper.step(batch.rows, batch.frames), self._meters.count_retry
        )
        self._stepped_last = True
        self._meters.step_took(time.perf_counter() - began, len(batch.members))
        return output

    def _scatter(self, batch: _Batch, output: StepOutput) -> None:
        for member in batch.members:
            call = member.call
            position, call.position = call.position, call.position + 1
            if not output.finite[call.slot]:
                self._meters.failed_rows += 1
                reason = "the model left the real numbers"
                self._calls.fail(call, member.epoch, "row_failed", reason)
                continue
            self._meters.frames += 1
            if self._table.is_live(call, member.epoch):
                self._calls.deliver(call, self._result(member, position, output))

    def _result(self, member: _Member, position: int, output: StepOutput) -> FrameResult:
        slot = member.call.slot
        token = int(output.text[slot])
        return FrameResult(
            epoch=member.epoch,
            seq=member.frame.seq,
            position=position,
            pcm=output.pcm[slot].copy(),
            text=member.call.transcript(token),
            text_token=token,
            codes=tuple(output.codes[slot].tolist()),
            held=member.held,
        )

    def _prefill(self) -> None:
        """One chunk, while no step is due; whoever waited for the last is admitted next."""
        self._stepped_last = False
        if self._prefills.advance():
            self._table.wake()


def _unknown_voice(spec: SessionSpec) -> InvalidVoice:
    return InvalidVoice(f"no bundled voice is named {spec.voice!r}")
