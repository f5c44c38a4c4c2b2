"""A call's input on its way into the engine: framed, submitted under an identity, and answered.

It keeps the account of every frame that it takes. When input comes and what an answer means it does
not know; the session does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from agent.counters import Counters
from agent.errors import SessionError
from agent.framing import Framer, Reservation, Samples
from agent.policy import Policy
from agent.turns import OPEN_DBFS, level_dbfs
from model import Engine, EngineError, FrameResult, Handle, InputOverflow, Pcm


class Intake:
    """What waits, and what the engine was given and has not answered."""

    def __init__(
        self,
        engine: Engine,
        handle: Handle,
        policy: Policy,
        counters: Counters,
        retry: Callable[[Callable[[], None]], None],
        fail: Callable[[EngineError], None],
    ) -> None:
        """`retry` calls back a little later, `fail` takes what ends the call."""
        self._engine = engine
        self._handle = handle
        self._policy = policy
        self._counters = counters
        self._retry = retry
        self._fail = fail
        self._framer = Framer()
        self._in_flight: deque[Reservation] = deque()
        self._open = True

    @property
    def epoch(self) -> int:
        return self._framer.epoch

    @property
    def pending(self) -> int:
        """Whole frames that are not answered yet."""
        return len(self._framer.waiting) + len(self._in_flight)

    def frames_to_loud(self) -> int:
        """Frames not yet stepped, up to the last one that holds more than silence."""
        levels = [reservation.frame.level for reservation in self._in_flight]
        levels += [frame.level for frame in self._framer.waiting]
        if self._framer.partial.size:
            levels.append(level_dbfs(self._framer.partial))
        return max((i + 1 for i, level in enumerate(levels) if level > OPEN_DBFS), default=0)

    def check_room(self, samples: int) -> None:
        """Refuse an append of so many samples where too much would wait."""
        limit = self._policy.queue_frames
        if self._framer.frames_after(samples) + len(self._in_flight) > limit:
            self._counters.refused += 1
            raise SessionError(
                "input_backpressure", f"{limit} frames may wait; nothing of this append was kept"
            )

    def append(self, samples: Samples, now: float) -> None:
        """Take samples of any number."""
        self._counters.accepted += self._framer.append(samples, now)
        self.pump()

    def pad(self, now: float) -> bool:
        """Complete a waiting partial frame with zeros; false where there is none."""
        padded = self._framer.pad(now)
        self._counters.accepted += padded
        self.pump()
        return padded

    def push(self, pcm: Pcm, now: float, *, clocked: bool) -> None:
        """Take one whole frame; beyond the bound the oldest goes, where the mood says so."""
        self._framer.push(pcm, now, clocked=clocked)
        self._counters.accepted += 1
        self._counters.clocked += clocked
        self.pump()
        if self._policy.drop_oldest and len(self._framer.waiting) > self._policy.queue_frames:
            self._framer.drop_oldest()
            self._counters.dropped_overflow += 1

    def pump(self) -> None:
        """Hand over waiting frames while the engine takes them."""
        while self._open and len(self._in_flight) < self._policy.in_flight_frames:
            reservation = self._framer.reserve()
            if reservation is None or not self._submit(reservation):
                return

    def _submit(self, reservation: Reservation) -> bool:
        try:
            self._engine.submit(
                self._handle, reservation.epoch, reservation.seq, reservation.frame.pcm
            )
        except EngineError as error:
            self._framer.rollback(reservation)
            self._counters.rolled_back += 1
            if isinstance(error, InputOverflow):
                self._retry(self.pump)
            else:
                self._fail(error)
            return False
        self._framer.commit(reservation)
        self._in_flight.append(reservation)
        self._counters.submitted += 1
        return True

    def answered(self, result: FrameResult) -> Reservation | None:
        """The frame that a result answers; none where it is late or repeated."""
        expected = self._in_flight[0] if self._in_flight else None
        if expected is None or (result.epoch, result.seq) != (expected.epoch, expected.seq):
            self._counters.stale += 1
            return None
        self._counters.stepped += 1
        return self._in_flight.popleft()

    def restart(self) -> None:
        """A hard cancel: what was submitted is lost, what waits belongs to the new epoch."""
        self._counters.dropped_cancel += len(self._in_flight)
        self._in_flight.clear()
        self._framer.restart(self._engine.restart(self._handle))
        self._counters.epochs += 1
        self.pump()

    def clear(self) -> None:
        """Forget samples that the engine has not taken."""
        self._counters.dropped_cancel += self._framer.clear()

    def close(self) -> None:
        """Forget everything; nothing is taken after this."""
        self._open = False
        self._counters.dropped_close += len(self._in_flight) + self._framer.clear()
        self._in_flight.clear()
