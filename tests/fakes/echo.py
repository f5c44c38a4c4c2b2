"""An engine that gives back what it hears, one frame for one frame, at the `Engine` protocol.

For tests that identify samples or time the transport: there is no model in it. It keeps what
each call was given, so that a test can look at the session's input. `tests/fakes/echo_worker.py`
starts the real worker process around it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from model import (
    FRAME_SAMPLES,
    Bound,
    Deliver,
    EngineEvent,
    EngineStats,
    FrameResult,
    Handle,
    InputOverflow,
    InvalidVoice,
    Pcm,
    Released,
    ResourceExhausted,
    SessionSpec,
)

PREFILL_POSITIONS = 12
WORD_EVERY = 6
"""A word goes out with every sixth frame that is not silent."""
SILENT_PEAK = 1e-3
FULL_SCALE = np.float32(32768)
PAD = 3


@dataclass
class Heard:
    """What one call was given, in the order in which it was stepped."""

    spec: SessionSpec | None = None
    frames: list[tuple[int, int, NDArray[np.int16]]] = field(default_factory=list)
    """Epoch, seq and samples; 16 bits, so that a minute weighs little."""

    def add(self, epoch: int, seq: int, pcm: Pcm) -> None:
        self.frames.append((epoch, seq, (pcm * FULL_SCALE).clip(-32768, 32767).astype(np.int16)))

    def pcm(self) -> Pcm:
        """The input end to end, `[N * 1920]`."""
        if not self.frames:
            return np.zeros(0, np.float32)
        return np.concatenate([pcm for _, _, pcm in self.frames]).astype(np.float32) / FULL_SCALE


@dataclass
class _Call:
    deliver: Deliver
    handle: Handle
    limit: int
    heard: Heard
    queue: deque[tuple[int, int, Pcm]] = field(default_factory=deque)
    epoch: int = 0
    last_seq: int = 0
    position: int = PREFILL_POSITIONS
    words: int = 0
    voiced: int = 0
    held: bool = False


class EchoEngine:
    """`max_sessions` slots; every submitted frame comes back from the engine's own thread."""

    voices = ("ECHO.pt", "OTHER.pt")
    default_spec = SessionSpec(voice="ECHO.pt", persona="You repeat what you hear.")
    context = 3000

    def __init__(
        self, max_sessions: int = 2, on_closed: Callable[[Heard], None] | None = None
    ) -> None:
        self.max_sessions = max_sessions
        self._on_closed = on_closed
        self._calls: dict[int, _Call] = {}
        self._generations = [0] * max_sessions
        self._work: deque[Callable[[], None]] = deque()
        self._wake = threading.Condition()
        self._stopping = False
        self._steps = 0
        self._undelivered = 0
        self._thread = threading.Thread(target=self._run, name="echo-engine", daemon=True)
        self._thread.start()

    def prepare(self, spec: SessionSpec) -> Future[int]:
        done: Future[int] = Future()
        if spec.voice in self.voices:
            done.set_result(PREFILL_POSITIONS)
        else:
            done.set_exception(InvalidVoice(f"there is no voice {spec.voice!r}"))
        return done

    def open(self, deliver: Deliver, *, queue_frames: int = 25) -> Handle:
        with self._wake:
            free = [slot for slot in range(self.max_sessions) if slot not in self._calls]
            if not free:
                raise ResourceExhausted(self.max_sessions, self.max_sessions)
            slot = free[0]
            self._generations[slot] += 1
            handle = Handle(slot, self._generations[slot])
            self._calls[slot] = _Call(deliver, handle, queue_frames, Heard())
            return handle

    def bind(self, handle: Handle, spec: SessionSpec) -> None:
        if spec.voice not in self.voices:
            raise InvalidVoice(f"there is no voice {spec.voice!r}")
        with self._wake:
            call = self._current(handle)
            if call is not None:
                call.heard.spec = spec
                self._post(call, Bound(call.epoch, PREFILL_POSITIONS))

    def submit(self, handle: Handle, epoch: int, seq: int, pcm: Pcm) -> None:
        with self._wake:
            call = self._current(handle)
            if call is None or epoch != call.epoch or seq <= call.last_seq:
                return
            if len(call.queue) >= call.limit:
                raise InputOverflow(f"{call.limit} frames are waiting")
            call.last_seq = seq
            call.queue.append((epoch, seq, np.array(pcm, np.float32)))
            self._work.append(lambda: self._step(call))
            self._wake.notify()

    def restart(self, handle: Handle) -> int:
        with self._wake:
            call = self._current(handle)
            if call is None:
                return 0
            call.queue.clear()
            call.epoch, call.last_seq = call.epoch + 1, 0
            call.position, call.held = PREFILL_POSITIONS, False
            self._post(call, Bound(call.epoch, PREFILL_POSITIONS))
            return call.epoch

    def hold(self, handle: Handle, held: bool) -> None:
        with self._wake:
            call = self._current(handle)
            if call is not None:
                call.held = held

    def close(self, handle: Handle) -> None:
        with self._wake:
            call = self._current(handle)
            if call is not None:
                self._work.append(lambda: self._release(call))
                self._wake.notify()

    def shutdown(self) -> None:
        """End the engine's thread; calls still open are dropped."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join()

    def stats(self) -> EngineStats:
        with self._wake:
            return EngineStats(
                max_sessions=self.max_sessions,
                used=len(self._calls),
                steps=self._steps,
                frames=self._steps,
                encoded=self._steps,
                prefills=0,
                prefix_hits=0,
                voice_reads=0,
                bucket_changes=0,
                retried_steps=0,
                failed_rows=0,
                undelivered=self._undelivered,
                step_p50_s=0.0,
                step_p99_s=0.0,
                prefix_bytes=0,
                faulted=False,
            )

    def _current(self, handle: Handle) -> _Call | None:
        call = self._calls.get(handle.slot)
        return call if call is not None and call.handle == handle else None

    def _post(self, call: _Call, event: EngineEvent) -> None:
        self._work.append(lambda: self._deliver(call, event))
        self._wake.notify()

    def _run(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._work or self._stopping)
                if self._stopping:
                    return
                task = self._work.popleft()
            task()

    def _step(self, call: _Call) -> None:
        with self._wake:
            if not call.queue:
                return
            epoch, seq, pcm = call.queue.popleft()
            call.heard.add(epoch, seq, pcm)
            self._steps += 1
            result = self._result(call, epoch, seq, pcm)
        self._deliver(call, result)

    def _result(self, call: _Call, epoch: int, seq: int, pcm: Pcm) -> FrameResult:
        text = ""
        if not call.held and np.abs(pcm).max() > SILENT_PEAK:
            call.voiced += 1
            if call.voiced % WORD_EVERY == 1:
                call.words += 1
                text = f" word{call.words}"
        position, call.position = call.position, call.position + 1
        return FrameResult(
            epoch=epoch,
            seq=seq,
            position=position,
            pcm=np.zeros(FRAME_SAMPLES, np.float32) if call.held else pcm,
            text=text,
            text_token=100 if text else PAD,
            codes=(0,) * 8,
            held=call.held,
        )

    def _release(self, call: _Call) -> None:
        with self._wake:
            if self._current(call.handle) is None:
                return
            if self._on_closed is not None:
                self._on_closed(call.heard)
            del self._calls[call.handle.slot]
        self._deliver(call, Released())

    def _deliver(self, call: _Call, event: EngineEvent) -> None:
        try:
            call.deliver(event)
        except RuntimeError:  # the call's loop has closed
            with self._wake:
                self._undelivered += 1
