"""The clock that feeds silence to a call whose client pauses: one frame per 80 ms, no burst.

It decides only when; the session makes the frame and says what is open and what still waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from agent.policy import Continuation
from model import FRAME_SECONDS


class Clocked(Protocol):
    """What the clock asks of its session."""

    @property
    def busy(self) -> bool:
        """Frames wait or are being stepped."""
        ...

    @property
    def responding(self) -> bool:
        """A response is open or asked for."""
        ...


class SilenceClock:
    """Deadlines for continuation frames after the appended audio has run out."""

    def __init__(
        self,
        rule: Continuation,
        session: Clocked,
        feed: Callable[[], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._rule = rule
        self._session = session
        self._feed = feed
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._running = False
        self._armed = False
        self._committed = False
        self._used = 0
        self._run_out = 0.0
        self._last_needed = 0.0

    def appended(self, duration_s: float) -> None:
        """Real audio came: it takes over at once."""
        now = self._loop.time()
        self._armed, self._committed, self._used = True, False, 0
        self._run_out = self._last_needed = now + duration_s
        self._wait_until(self._run_out + self._rule.grace_s)

    def turn_given(self) -> None:
        """A commit or a `response.create`: whoever gives the turn is not about to send more."""
        self._armed = True
        self._last_needed = max(self._last_needed, self._loop.time())
        if self._rule.after_commit:
            self._committed = True
            if not self._running:
                self._wait_until(self._loop.time())

    def stepped(self) -> None:
        """A frame was stepped; the last one starts the wait, where no clock runs yet."""
        if self._session.responding:
            self._last_needed = max(self._last_needed, self._loop.time())
        if self._running or not self._armed or self._session.busy:
            return
        now = self._loop.time()
        grace = 0.0 if self._committed else self._rule.grace_s
        self._wait_until(now if self._committed else max(self._run_out, now) + grace)

    def stop(self) -> None:
        """The session has ended, or starts afresh."""
        self._running = self._armed = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait_until(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._running = False
        self._timer = self._loop.call_at(deadline, self._tick, deadline)

    def _tick(self, deadline: float) -> None:
        self._timer = None
        if not self._running and self._session.busy:
            return  # the last step starts the wait again
        if self._exhausted():
            self.stop()
            return
        self._running = True
        if not self._session.busy:
            self._used += 1
            self._feed()
            if not self._running:
                return  # that frame has ended the session
        now = self._loop.time()
        following = deadline + FRAME_SECONDS
        if following < now:
            following = now + FRAME_SECONDS
        self._timer = self._loop.call_at(following, self._tick, following)

    def _exhausted(self) -> bool:
        limit, linger = self._rule.frames_per_pause, self._rule.linger_s
        if limit is not None and self._used >= limit:
            return True
        quiet = not self._session.responding
        return linger is not None and quiet and self._loop.time() >= self._last_needed + linger
