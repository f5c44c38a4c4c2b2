"""One drawn sequence on one session, beside the account of its input that the contract demands.

Samples are numbered, so that what the engine heard tells which bytes it got, how often and in
which order. The scripted engine answers only when a step is drawn, and refuses at random. The ways
to end are steps like the others: whatever is drawn after one must be harmless.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from agent.errors import SessionError
from agent.manager import SessionManager
from agent.policy import DUPLEX_CONTINUATION, ROOM, Policy
from agent.sink import OutputFrame
from model import FRAME_SAMPLES, FrameResult, Handle, InputOverflow, Pcm, SessionSpec
from tests.fakes.engine import FakeEngine, Said
from tests.fakes.sink import ListSink
from tests.unit.agent.session.account import COUNTED, Account
from tests.unit.agent.session.sequences import Step


class Observed(FakeEngine):
    """Tells what it was offered, and whether it took it."""

    offered: Callable[[int, int, Pcm, bool], None]

    def submit(self, handle: Handle, epoch: int, seq: int, pcm: Pcm) -> None:
        try:
            super().submit(handle, epoch, seq, pcm)
        except InputOverflow:
            self.offered(epoch, seq, pcm, False)
            raise
        self.offered(epoch, seq, pcm, True)


class Run:
    """One sequence on one session."""

    def __init__(self, policy: Policy, continued: bool) -> None:
        self.policy = policy
        self.account = Account(policy)
        self.soft = False
        """A soft cancel was asked for: not every frame has to be heard."""
        self.due: set[tuple[int, int]] = set()
        """Stepped while the session was open and in their epoch, before the step and after it."""
        self.at_output: list[tuple[int, int]] = []
        """The epoch of each frame that was heard, and the session's at that time."""
        self.updated_when_bound = 0
        self.broken: list[dict[str, Any]] = []
        """What the loop was told of callbacks that raised."""
        self.sample = 0
        self.refusals = 0
        self._continued = continued

    async def play(self, steps: list[Step]) -> None:
        asyncio.get_running_loop().set_exception_handler(
            lambda loop, context: self.broken.append(context)
        )
        self._open()
        left = deque(steps)
        while left:
            # One that is cancelled leaves steps to another, as one track of a call does.
            handler = asyncio.create_task(self._handle(left))
            await asyncio.wait([handler])
            if not handler.cancelled():
                handler.result()
        self.session.close("disconnect")
        await asyncio.sleep(30)

    def _open(self) -> None:
        self.engine = Observed(max_sessions=1, script=self.says, step_s=None)
        self.engine.fail_submits = self._refuses
        self.engine.offered = self._offered
        self.sink = ListSink()
        self.manager = SessionManager(self.engine)
        self.session = self.manager.open(self.policy, self.sink)
        if self._continued:
            self.session.adjust(continuation=DUPLEX_CONTINUATION)
        if (clock := self.session._clock) is not None:
            feed = clock._feed
            clock._feed = lambda: self._feed(feed)
        record = self.sink.output
        self.sink.output = lambda frame: self._note(record, frame)  # type: ignore[method-assign]

    @property
    def open(self) -> bool:
        return self.session.state == "open"

    async def _handle(self, left: deque[Step]) -> None:
        """As a transport does: whatever happens, the session is closed on the way out."""
        try:
            while left:
                await self._step(*left.popleft())
        except asyncio.CancelledError:
            self.session.close("disconnect")
            raise

    async def _step(self, name: str, value: Any) -> None:
        life, first = (self.session.state, self.session.epoch), len(self.engine.stepped)
        try:
            await self._do(name, value)
        except SessionError:
            pass  # refused: the session goes on
        await asyncio.sleep(value if name == "wait" else 0.001)
        if self.open and life == ("open", self.session.epoch):
            self.due |= {(epoch, seq) for _, _, epoch, seq in self.engine.stepped[first:]}
        self.compare()

    async def _do(self, name: str, value: Any) -> None:
        if name == "settle":
            await self._settle()
        elif name == "drain":
            await self.manager.drain(0.5)
        elif name == "task cancelled":
            task = asyncio.current_task()
            assert task is not None
            asyncio.get_running_loop().call_later(value, task.cancel)
        elif name == "close":
            self.session.close("client_close")
        elif name == "socket loss":
            self.session.close("disconnect")
        elif name == "call fails":
            self.engine.fail("row_failed")
        elif name == "fault":
            self.engine.fail("engine_fault")
        else:
            self._operate(name, value)

    async def _settle(self) -> None:
        """What was begun is stepped to its end; a refused frame is offered again."""
        self.refusals = 0
        await asyncio.sleep(0.2)
        if self.open:
            assert not self.account.waiting or not self.account.refused_last
        self._answer(60)
        await asyncio.sleep(0.2)

    def _operate(self, name: str, value: Any) -> None:
        if name == "append":
            self._append(value)
        elif name == "silence":
            self._push(np.zeros(value * FRAME_SAMPLES, np.float32))
        elif name == "step":
            self._answer(value)
        elif name == "cancel":
            self._cancel(value)
        elif name == "create":
            self.session.create_response({"n": "1"})
        elif name == "repeat":
            self._repeat_results()
        elif name == "refuse":
            self.refusals = value
        elif name == "cleanup fails":
            self.engine.cleanup_failures = value
        elif name in ("commit", "clear"):
            self._give_or_forget(name, value)
        elif self.open:
            self._update(name, value)

    def _give_or_forget(self, name: str, value: Any) -> None:
        if name == "commit":
            if self.open:
                self.account.commit(value)
            self.session.commit(final=value)
        else:
            if self.open:
                self.account.clear()
            self.session.clear_input()

    def _update(self, name: str, value: Any) -> None:
        """What may still change: the way to cancel always, voice and persona before binding."""
        if name == "cancel mode":
            self.updated_when_bound += self.session.bound
            self.session.adjust(cancel_mode=value)
        elif name == "prompt" and not self.session.bound:
            self.session.configure(SessionSpec("NATM1.pt", value))

    def _append(self, count: int) -> None:
        numbered = np.arange(self.sample + 1, self.sample + count + 1, dtype=np.float32)
        self.sample += count
        self._push(numbered)

    def _push(self, samples: Pcm) -> None:
        if self.policy is ROOM:
            for start in range(0, samples.size - FRAME_SAMPLES + 1, FRAME_SAMPLES):
                self._push_frame(samples[start : start + FRAME_SAMPLES])
            return
        if self.open:
            self.account.append(samples)
        self.session.append(samples)

    def _push_frame(self, frame: Pcm) -> None:
        if self.open:
            self.account.push(frame)
        self.session.push_frame(frame)
        self.account.overflow()

    def _feed(self, feed: Callable[[], None]) -> None:
        """The silence clock's deadline."""
        self.account.silence()
        feed()

    def _answer(self, frames: int) -> None:
        before = len(self.engine.stepped)
        self.engine.step(frames)
        self.account.stepped(len(self.engine.stepped) - before)

    def _cancel(self, asked: Any) -> None:
        mode = asked or self.session.policy.cancel_mode
        self.soft |= mode == "soft"
        if self.open and self.session.responding and mode == "hard":
            self.account.restart()
        self.session.cancel(asked)

    def says(self, epoch: int, seq: int, pcm: Pcm) -> Said:
        return Said(" w", 50, 0.1) if seq % 23 < 9 else Said()

    def _refuses(self) -> bool:
        self.refusals -= 1
        return self.refusals >= 0

    def _repeat_results(self) -> None:
        """Every identity so far is delivered once more, of this epoch and of old ones."""
        for _, _, epoch, seq in self.engine.stepped[-5:]:
            stale = FrameResult(
                epoch, seq, 0, np.ones(FRAME_SAMPLES, np.float32), "!", 9, (), False
            )
            self.engine.repeat(stale)

    def _offered(self, epoch: int, seq: int, pcm: Pcm, taken: bool) -> None:
        if not self.open:
            self.account.wrong.append(f"{(epoch, seq)} was offered after the end")
        self.account.offered(epoch, seq, pcm, taken=taken)

    def _note(self, record: Callable[[OutputFrame], None], frame: OutputFrame) -> None:
        self.at_output.append((frame.epoch, self.session.epoch))
        record(frame)

    def compare(self) -> None:
        """The session's own account is complete, and the same as the contract's."""
        count, account, intake = self.session.counters, self.account, self.session._intake
        dropped = count.dropped_overflow + count.dropped_cancel + count.dropped_close
        assert count.accepted == count.stepped + dropped + intake.pending
        assert count.stepped == count.emitted + count.withheld
        assert count.emitted == len(self.sink.frames)
        assert not account.wrong and not self.broken
        assert {name: getattr(count, name) for name in COUNTED} == account.counts
        assert self.session.epoch == account.epoch and count.epochs == account.epoch + 1
        assert intake._framer.seq == account.cursor
        if self.open:
            assert intake.pending == account.pending and not account.held_back
        else:
            assert intake.pending == 0
