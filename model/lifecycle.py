"""From bind to seat and from close to `Released`: how calls enter and leave the slots.

Runs in the engine's thread, between steps. A call is seated by a copy of its prefix; a slot goes
back only once its tensors were cleaned (contract A3), and a new epoch cleans before it replays
(contract E1).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic

from model.core import (
    Bound,
    CallFailed,
    EngineError,
    EngineEvent,
    EngineFault,
    Released,
    SessionSpec,
)
from model.faults import raise_if_device
from model.meters import Meters
from model.prefix import Prefills
from model.slots import Call, Phase, SlotTable, Transcript
from model.stepper import PrefixT, PromptT, Stepper

log = logging.getLogger(__name__)

REAPER_SECONDS = 5.0
"""A failed cleanup is tried again after this time (contract A3)."""


class Lifecycle(Generic[PromptT, PrefixT]):
    """Admission, failure and retirement of calls. All but `prepare` in the engine's thread."""

    def __init__(
        self,
        table: SlotTable,
        stepper: Stepper[PromptT, PrefixT],
        prefills: Prefills[PromptT, PrefixT],
        new_transcript: Callable[[], Transcript],
        meters: Meters,
        clock: Callable[[], float],
    ) -> None:
        self._table, self._stepper, self._prefills = table, stepper, prefills
        self._new_transcript, self._meters, self._clock = new_transcript, meters, clock
        self._prepares: deque[tuple[SessionSpec, Future[int]]] = deque()

    def prepare(self, spec: SessionSpec) -> Future[int]:
        """Any thread: prefill without a call, at the next admission."""
        future: Future[int] = Future()
        self._prepares.append((spec, future))
        self._table.wake()
        return future

    # ---- in --------------------------------------------------------------------------------

    def admit(self) -> None:
        """Seat the bound calls whose prefix is ready; ask for the prefixes nobody has yet."""
        self._hand_over_prepares()
        for call in self._table.calls(Phase.BINDING):
            if not call.dirty:
                self._admit_call(call)
        self._prefills.forget_finished()

    def _hand_over_prepares(self) -> None:
        while self._prepares:
            spec, future = self._prepares.popleft()
            self._prefills.prepare(spec, future)

    def _admit_call(self, call: Call) -> None:
        with self._table.lock:
            spec, epoch = call.spec, call.epoch
            first, call.prefix_asked = not call.prefix_asked, True
        assert spec is not None
        answer = self._prefills.request(spec)
        if isinstance(answer, EngineError):
            self.fail(call, epoch, answer.code, str(answer))
        elif answer is not None:
            self._meters.prefix_hits += first
            self._seat(call, epoch, spec, answer)

    def _seat(self, call: Call, epoch: int, spec: SessionSpec, prefix: PrefixT) -> None:
        call.dirty = True
        try:
            self._stepper.admit(call.slot, prefix, spec.sampling)
        except Exception as error:
            raise_if_device(error)
            log.exception("admission to slot %d failed", call.slot)
            self.fail(call, epoch, "row_failed", f"the call could not be started: {error}")
            return
        with self._table.lock:
            seated = call.phase is Phase.BINDING and call.epoch == epoch
            if seated:
                call.phase, call.position = Phase.LIVE, prefix.positions
                call.transcript = self._new_transcript()
        if seated:
            self.deliver(call, Bound(epoch, prefix.positions))

    # ---- out -------------------------------------------------------------------------------

    def retire(self) -> None:
        """Clean what was given back or restarted; a failed cleanup keeps its slot in use."""
        now = self._clock()
        for call in self._soiled():
            if call.retry_at <= now:
                self._clean(call)
        for call in self._table.calls(Phase.CLOSING):
            if not call.dirty:
                self._table.free(call)
                self.deliver(call, Released())

    def next_retry(self) -> float | None:
        return min((call.retry_at for call in self._soiled()), default=None)

    def _soiled(self) -> list[Call]:
        """Slots whose tensors outlived their epoch or their owner."""
        return [c for c in self._table.calls(Phase.CLOSING, Phase.BINDING) if c.dirty]

    def _clean(self, call: Call) -> None:
        try:
            self._stepper.release(call.slot)
        except Exception as error:
            raise_if_device(error)
            self._meters.failed_cleanups += 1
            call.retry_at = self._clock() + REAPER_SECONDS
            log.exception("cleanup of slot %d failed; again in %g s", call.slot, REAPER_SECONDS)
        else:
            call.dirty = False
            self._table.wake()

    # ---- failure ---------------------------------------------------------------------------

    def fail(self, call: Call, epoch: int, code: str, message: str) -> None:
        """End this call alone; a superseded epoch's failure is nobody's."""
        with self._table.lock:
            if not call.open or call.epoch != epoch:
                return
            call.phase = Phase.FAILED
            call.forget_input()
        self.deliver(call, CallFailed(epoch, code, message))

    def abandon(self, fault: EngineFault) -> None:
        """The device is gone: every call learns it, and slots go back without a cleanup."""
        self._hand_over_prepares()
        self._prefills.abandon(fault)
        for call in self._table.calls(Phase.UNBOUND, Phase.BINDING, Phase.LIVE):
            self.fail(call, call.epoch, fault.code, str(fault))
        for call in self._table.calls(Phase.CLOSING):
            self._table.free(call)
            self.deliver(call, Released())

    def deliver(self, call: Call, event: EngineEvent) -> None:
        """A closed loop is counted (contract I1), any other refusal is also logged."""
        try:
            call.deliver(event)
        except Exception as error:
            self._meters.undelivered += 1
            if not isinstance(error, RuntimeError):
                log.exception("a call's deliver raised on %s", type(event).__name__)
