"""Prefixes: one read and one prefill per (voice, persona), however many calls race for it.

`Prefills` runs at most one chunk a call of `advance`, between steps, in the engine's thread; the
reading of voice and persona happens on a reader thread. Finished prefixes go to a byte-bounded
cache (contracts B7, I3). Knows nothing of slots or calls: those ask again until there is an answer.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Generic

from model.core import EngineError, PrefillUnavailable, PromptTooLong, SessionSpec
from model.faults import raise_if_device
from model.stepper import Prefill, PrefixT, PromptT

log = logging.getLogger(__name__)

Key = tuple[str, str]
"""Voice and persona; the sampler is no part of a prefix."""


def key_of(spec: SessionSpec) -> Key:
    return (spec.voice, spec.persona)


class PrefixCache(Generic[PrefixT]):
    """Least recently used out first, once the bytes no longer fit."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries: OrderedDict[Key, PrefixT] = OrderedDict()
        self.nbytes = 0

    def get(self, key: Key) -> PrefixT | None:
        if key in self._entries:
            self._entries.move_to_end(key)
        return self._entries.get(key)

    def put(self, key: Key, prefix: PrefixT) -> None:
        """Keep it where it fits at all; a prefix larger than the bound is used and let go."""
        if key in self._entries or prefix.nbytes > self._max_bytes:
            return
        self._entries[key] = prefix
        self.nbytes += prefix.nbytes
        while self.nbytes > self._max_bytes:
            _, evicted = self._entries.popitem(last=False)
            self.nbytes -= evicted.nbytes


@dataclass
class _Job(Generic[PromptT, PrefixT]):
    """One pair on its way: being read, then prefilled chunk by chunk."""

    spec: SessionSpec
    reading: Future[PromptT] = field(default_factory=Future)
    asked: bool = False
    """A call waits for it; else only futures of `prepare` do."""
    futures: list[Future[int]] = field(default_factory=list)
    prefill: Prefill[PrefixT] | None = None

    @property
    def key(self) -> Key:
        return key_of(self.spec)

    @property
    def wanted(self) -> bool:
        return self.asked or any(not future.cancelled() for future in self.futures)


class Prefills(Generic[PromptT, PrefixT]):
    """Single flight for prompts. All methods but the reader's run in the engine's thread."""

    def __init__(
        self,
        read: Callable[[SessionSpec], PromptT],
        begin: Callable[[PromptT], Prefill[PrefixT]],
        cache: PrefixCache[PrefixT],
        reader: Executor,
        wake: Callable[[], None],
        *,
        limit: int,
    ) -> None:
        self._read, self._begin, self._cache = read, begin, cache
        self._reader, self._wake, self._limit = reader, wake, limit
        self._jobs: OrderedDict[Key, _Job[PromptT, PrefixT]] = OrderedDict()
        self._finished: dict[Key, PrefixT | EngineError] = {}
        self.reads = 0
        self.completed = 0
        self.chunks = 0

    @property
    def pending(self) -> bool:
        """A chunk, or the end of a job, could be done right now."""
        return any(job.reading.done() for job in self._jobs.values())

    @property
    def cache_bytes(self) -> int:
        return self._cache.nbytes

    def cached(self, spec: SessionSpec) -> PrefixT | None:
        return self._cache.get(key_of(spec))

    def request(self, spec: SessionSpec) -> PrefixT | EngineError | None:
        """The pair's prefix or why there is none; `None` for: ask again after `advance`."""
        key = key_of(spec)
        cached = self._cache.get(key)
        answer = self._finished.get(key) if cached is None else cached
        if answer is None:
            self._join(spec, None)
        return answer

    def prepare(self, spec: SessionSpec, future: Future[int]) -> None:
        """Like `request` on nobody's behalf; the future gets the length in positions."""
        cached = self._cache.get(key_of(spec))
        if cached is None:
            self._join(spec, future)
        elif future.set_running_or_notify_cancel():
            future.set_result(cached.positions)

    def forget_finished(self) -> None:
        """Everybody who waited has asked: what does not fit the cache may go."""
        self._finished.clear()

    def advance(self) -> bool:
        """Run one chunk of the oldest job that has been read; false where there is none."""
        job = next((job for job in self._jobs.values() if job.reading.done()), None)
        if job is None:
            return False
        try:
            self._step(job)
        except EngineError as error:
            self._finish(job, error)
        except Exception as error:
            raise_if_device(error)
            log.exception("prefill failed")
            self._finish(job, PrefillUnavailable(f"the prefill failed: {error}"))
        return True

    def abandon(self, error: EngineError) -> None:
        """The device is gone: nobody is left waiting."""
        for job in list(self._jobs.values()):
            self._finish(job, error)

    def _join(self, spec: SessionSpec, future: Future[int] | None) -> None:
        """Wait for the pair's job along with everybody else, or start it."""
        known = self._jobs.get(key_of(spec))
        job = self._jobs[key_of(spec)] = known or _Job[PromptT, PrefixT](spec)
        if future is None:
            job.asked = True
        else:
            job.futures.append(future)
        if known is None:
            self._reader.submit(self._read_job, job)

    def _read_job(self, job: _Job[PromptT, PrefixT]) -> None:
        """On the reader's thread: voice and persona become a prompt."""
        try:
            if job.wanted:
                self.reads += 1
                job.reading.set_result(self._read(job.spec))
            else:
                job.reading.cancel()
        except Exception as error:
            job.reading.set_exception(error)
        self._wake()

    def _step(self, job: _Job[PromptT, PrefixT]) -> None:
        if job.prefill is None:
            if not job.wanted:
                del self._jobs[job.key]
                return
            if job.reading.cancelled():  # by the reader, just before somebody joined
                job.reading = Future()
                self._reader.submit(self._read_job, job)
                return
            job.prefill = self._begin(self._measured(job))
        self.chunks += 1
        prefix = job.prefill.advance()
        if prefix is not None:
            self.completed += 1
            self._cache.put(job.key, prefix)
            self._finish(job, prefix)

    def _measured(self, job: _Job[PromptT, PrefixT]) -> PromptT:
        """contract: B6"""
        prompt = job.reading.result()
        if prompt.positions > self._limit:
            raise PromptTooLong(prompt.positions, self._limit)
        return prompt

    def _finish(self, job: _Job[PromptT, PrefixT], answer: PrefixT | EngineError) -> None:
        del self._jobs[job.key]
        self._finished[job.key] = answer
        for future in job.futures:
            if not future.set_running_or_notify_cancel():
                continue
            if isinstance(answer, EngineError):
                future.set_exception(answer)
            else:
                future.set_result(answer.positions)
