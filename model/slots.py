"""Who holds which slot, and what waits in it: the engine's book, safe to use from any thread.

Every operation takes the lock, changes plain data and wakes the engine's thread; none blocks and
none touches the device. A handle whose generation is superseded changes nothing (contract E3).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto

import numpy as np

from model.core import (
    FRAME_SECONDS,
    Deliver,
    Handle,
    InputOverflow,
    Pcm,
    ResourceExhausted,
    SessionSpec,
)
from model.scheduler import CallTiming

NO_EPOCH = -1
"""What `restart` answers to a superseded handle; frames of this epoch are never stepped."""
Transcript = Callable[[int], str]
"""What a text token adds to one epoch's transcript; it remembers bytes of a split character."""


class Phase(Enum):
    """Where a call stands between `open` and `Released`."""

    UNBOUND = auto()
    BINDING = auto()
    LIVE = auto()
    FAILED = auto()
    CLOSING = auto()


@dataclass(frozen=True, slots=True)
class Frame:
    """One waiting frame, with the times the scheduler goes by."""

    seq: int
    pcm: Pcm
    arrived: float
    due: float


@dataclass(slots=True)
class Call:
    """One generation's claim on a slot."""

    handle: Handle
    deliver: Deliver
    queue_frames: int
    phase: Phase = Phase.UNBOUND
    spec: SessionSpec | None = None
    epoch: int = 0
    seq: int = 0
    """Of the last frame accepted in this epoch."""
    position: int = 0
    """The model position that the next frame is stepped at; set by the engine's thread."""
    transcript: Transcript = str
    """Made anew when the epoch is seated."""
    held: bool = False
    waiting: deque[Frame] = field(default_factory=deque)
    due: float = float("-inf")
    last_arrival: float | None = None
    prefix_asked: bool = False
    dirty: bool = False
    """The slot's tensors hold something that must be cleaned before their next use."""
    retry_at: float = float("-inf")

    @property
    def slot(self) -> int:
        return self.handle.slot

    @property
    def open(self) -> bool:
        return self.phase in (Phase.UNBOUND, Phase.BINDING, Phase.LIVE)

    def timing(self) -> CallTiming:
        head = self.waiting[0] if self.waiting else None
        return CallTiming(
            waiting_since=head.arrived if head else None,
            due=head.due if head else self.due,
            last_arrival=self.last_arrival,
        )

    def forget_input(self) -> None:
        self.waiting.clear()
        self.seq = 0
        self.due = float("-inf")
        self.last_arrival = None


class SlotTable:
    """`max_sessions` slots, the only capacity there is (contract A1)."""

    def __init__(self, max_sessions: int, clock: Callable[[], float]) -> None:
        self.max_sessions = max_sessions
        self.lock = threading.Condition(threading.RLock())
        self._clock = clock
        self._calls: list[Call | None] = [None] * max_sessions
        self._generations = [0] * max_sessions
        self._signalled = False

    # ---- any thread ----------------------------------------------------------------------

    def open(self, deliver: Deliver, queue_frames: int) -> Handle:
        with self.lock:
            free = next((i for i, call in enumerate(self._calls) if call is None), None)
            if free is None:
                raise ResourceExhausted(self.used, self.max_sessions)
            self._generations[free] += 1
            handle = Handle(free, self._generations[free])
            self._calls[free] = Call(handle, deliver, queue_frames)
            return handle

    def bind(self, handle: Handle, spec: SessionSpec) -> None:
        with self.lock:
            call = self._current(handle)
            if call is None or not call.open:
                return
            if call.phase is not Phase.UNBOUND:
                raise ValueError("a call is bound once")
            call.spec, call.phase = spec, Phase.BINDING
            self.wake()

    def submit(self, handle: Handle, epoch: int, seq: int, pcm: Pcm) -> None:
        with self.lock:
            call = self._current(handle)
            if call is None or not call.open or epoch != call.epoch or seq <= call.seq:
                return
            if seq != call.seq + 1:
                raise ValueError(f"frame {seq} follows frame {call.seq}")
            if len(call.waiting) >= call.queue_frames:
                raise InputOverflow(f"{len(call.waiting)} frames wait already; keep this one")
            now = self._clock()
            call.due = max(now, call.due + FRAME_SECONDS)
            call.waiting.append(Frame(seq, np.array(pcm, dtype=np.float32), now, call.due))
            call.seq, call.last_arrival = seq, now
            self.wake()

    def restart(self, handle: Handle) -> int:
        with self.lock:
            call = self._current(handle)
            if call is None:
                return NO_EPOCH
            if call.open:
                call.epoch += 1
                call.held = call.prefix_asked = False
                call.forget_input()
                call.phase = Phase.UNBOUND if call.spec is None else Phase.BINDING
                self.wake()
            return call.epoch

    def hold(self, handle: Handle, held: bool) -> None:
        with self.lock:
            call = self._current(handle)
            if call is not None and call.open:
                call.held = held

    def close(self, handle: Handle) -> None:
        with self.lock:
            call = self._current(handle)
            if call is not None:
                call.phase = Phase.CLOSING
                call.forget_input()
                self.wake()

    @property
    def used(self) -> int:
        with self.lock:
            return sum(call is not None for call in self._calls)

    @property
    def waiting_frames(self) -> int:
        with self.lock:
            return sum(len(call.waiting) for call in self._calls if call is not None)

    def wake(self) -> None:
        with self.lock:
            self._signalled = True
            self.lock.notify_all()

    # ---- the engine's thread -------------------------------------------------------------

    def calls(self, *phases: Phase) -> list[Call]:
        with self.lock:
            return [call for call in self._calls if call is not None and call.phase in phases]

    def is_live(self, call: Call, epoch: int) -> bool:
        with self.lock:
            return call.phase is Phase.LIVE and call.epoch == epoch

    def free(self, call: Call) -> None:
        with self.lock:
            self._calls[call.slot] = None

    def wait_until(self, instant: float | None) -> None:
        """Sleep until `instant`, or until anybody changes anything; `None` waits for a change."""
        with self.lock:
            while not self._signalled:
                left = None if instant is None else instant - self._clock()
                if left is not None and left <= 0:
                    break
                self.lock.wait(left)
            self._signalled = False

    def _current(self, handle: Handle) -> Call | None:
        call = self._calls[handle.slot] if 0 <= handle.slot < self.max_sessions else None
        return call if call is not None and call.handle == handle else None
