"""Admission, the live sessions, drain and what happens on a device fault.

One manager per process. It is thread-safe, since rooms run on loops of their own; the engine's
slot counter stays the one authority on capacity.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import fields

from agent.counters import Counters
from agent.errors import Refused, SessionError, refusal
from agent.policy import Policy
from agent.session import Session
from agent.sink import Sink
from agent.turns import DEFAULT_TURNS, TurnThresholds
from agent.warmup import warm_up
from model import Engine, EngineError, SessionSpec

log = logging.getLogger(__name__)

CLOSE_PATIENCE_S = 10.0


class SessionManager:
    """Opens sessions over one engine and knows those that hold a slot."""

    def __init__(
        self,
        engine: Engine,
        turns: TurnThresholds = DEFAULT_TURNS,
        default_spec: SessionSpec | None = None,
    ) -> None:
        self.engine = engine
        self.turns = turns
        self.default_spec = default_spec or engine.default_spec
        self.draining = False
        self.warm = False
        self.opened = 0
        self.refused = 0
        self._lock = threading.Lock()
        self._live: dict[Session, asyncio.AbstractEventLoop] = {}
        self._past = Counters(epochs=0)
        self._fault_callbacks: list[Callable[[], None]] = []
        self._waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    # Capacity.

    @property
    def max_sessions(self) -> int:
        return self.engine.max_sessions

    @property
    def used(self) -> int:
        """Slots that are open, or whose cleanup has not succeeded yet."""
        return self.engine.stats().used

    @property
    def load(self) -> float:
        return min(1.0, self.used / self.max_sessions)

    @property
    def faulted(self) -> bool:
        return self.engine.stats().faulted

    @property
    def ready(self) -> bool:
        return self.warm and not self.draining and not self.faulted

    @property
    def sessions(self) -> tuple[Session, ...]:
        """Those that hold a slot."""
        with self._lock:
            return tuple(self._live)

    def open(self, policy: Policy, sink: Sink, spec: SessionSpec | None = None) -> Session:
        """Admit one session on the running loop, or raise `Refused`."""
        if self.draining:
            self.refused += 1
            raise Refused("server_draining", "the server is shutting down")
        try:
            session = Session(self, policy, sink, spec or self.default_spec)
        except EngineError as error:
            self.refused += 1
            raise refusal(error) from error
        with self._lock:
            self._live[session] = asyncio.get_running_loop()
            self.opened += 1
        return session

    def totals(self) -> Counters:
        """Counters of every session so far, the live ones included."""
        total = Counters(epochs=0)
        for counters in (self._past, *(session.counters for session in self.sessions)):
            _add(total, counters)
        return total

    # Start and end.

    async def warmup(self, frames: int) -> None:
        """Step silence through a session of the server's own; a failure is logged, never fatal."""
        try:
            await warm_up(self, frames)
        except (SessionError, TimeoutError) as error:
            log.warning("warm-up failed, serving all the same: %s", error or "no output in time")
        finally:
            self.warm = True

    def on_fault(self, callback: Callable[[], None]) -> None:
        """Call back once a call was lost to a device fault; in that call's loop."""
        self._fault_callbacks.append(callback)

    def begin_drain(self) -> None:
        """Not ready any more, nothing new is accepted; calls go on."""
        self.draining = True

    async def drain(self, seconds: float) -> None:
        """Wait for the calls to end; close what is left after `seconds`."""
        self.begin_drain()
        await self._wait_empty(seconds)
        await self.close_all("drain")

    async def close_all(self, reason: str) -> None:
        """Close every session, each on its own loop, and wait a while for the slots."""
        for session, loop in self._snapshot():
            try:
                loop.call_soon_threadsafe(session.close, reason)
            except RuntimeError:
                log.warning("the loop of session %s is gone, its slot goes with it", session.id)
        await self._wait_empty(CLOSE_PATIENCE_S)

    async def _wait_empty(self, seconds: float) -> None:
        """Until no session holds a slot, or for `seconds`."""
        empty = asyncio.Event()
        waiter = (asyncio.get_running_loop(), empty)
        with self._lock:
            if not self._live:
                return
            self._waiters.append(waiter)
        try:
            await asyncio.wait_for(empty.wait(), seconds)
        except TimeoutError:
            log.info("%d sessions still hold a slot after %.0f s", len(self.sessions), seconds)
        finally:
            with self._lock:
                self._waiters.remove(waiter)

    def _snapshot(self) -> list[tuple[Session, asyncio.AbstractEventLoop]]:
        with self._lock:
            return list(self._live.items())

    def released(self, session: Session) -> None:
        """The session's slot has gone back."""
        with self._lock:
            if self._live.pop(session, None) is not None:
                _add(self._past, session.counters)
            if not self._live:
                for loop, empty in self._waiters:
                    loop.call_soon_threadsafe(empty.set)

    def failed(self, code: str) -> None:
        """A session was lost; where the device was, tell who wants to know."""
        if code == "engine_fault":
            for callback in self._fault_callbacks:
                callback()


def _add(total: Counters, counters: Counters) -> None:
    for entry in fields(Counters):
        value = getattr(total, entry.name) + getattr(counters, entry.name)
        setattr(total, entry.name, value)
