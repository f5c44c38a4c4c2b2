"""The timers of one session on its loop: first input, idleness, a refused frame, the release.

It knows when, and leaves what to the callbacks that it was given.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from agent.policy import Policy
from model import FRAME_SECONDS


class Timers:
    """The session's timers: first input, idleness, retry of a refused frame, release."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, policy: Policy, close: Callable[..., None]
    ) -> None:
        self._loop = loop
        self._idle_s = policy.idle_s
        self._close = close
        self._last = loop.time()
        self._handles: dict[str, asyncio.TimerHandle] = {}
        if policy.no_input_s is not None:
            self._set("no_input", policy.no_input_s, lambda: close("no_input"))
        if policy.idle_s is not None:
            self._set("idle", policy.idle_s, self._check_idle)

    def touch(self) -> None:
        self._last = self._loop.time()

    def heard(self) -> None:
        self.touch()
        self._cancel("no_input")

    def retry(self, action: Callable[[], None]) -> None:
        self._set("retry", FRAME_SECONDS, action)

    def patience(self, seconds: float, action: Callable[[], None]) -> None:
        self._set("release", seconds, action)

    def stop(self) -> None:
        for name in list(self._handles):
            self._cancel(name)

    def _check_idle(self) -> None:
        assert self._idle_s is not None
        left = self._last + self._idle_s - self._loop.time()
        if left <= 0:
            self._close("idle_ttl_expired", expired=True)
        else:
            self._set("idle", left, self._check_idle)

    def _set(self, name: str, seconds: float, action: Callable[[], None]) -> None:
        self._cancel(name)
        self._handles[name] = self._loop.call_later(seconds, action)

    def _cancel(self, name: str) -> None:
        handle = self._handles.pop(name, None)
        if handle is not None:
            handle.cancel()
