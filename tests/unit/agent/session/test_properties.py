"""Random sequences of everything that can happen to a session, against the contract's invariants.

Samples are numbered, so that what the engine heard tells which bytes it got, how often and in
which order. The scripted engine answers only when a step is drawn, and refuses at random. The ways
to end are steps like the others: whatever is drawn after one must be harmless.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from agent.errors import SessionError
from agent.manager import SessionManager
from agent.policy import CHAT, DUPLEX, DUPLEX_CONTINUATION, ROOM, STOCK, Policy
from agent.sink import OutputFrame
from model import FRAME_SAMPLES, FrameResult, Pcm, SessionSpec
from tests.conftest import SEED
from tests.fakes.clock import run
from tests.fakes.engine import FakeEngine, Said
from tests.fakes.sink import ListSink

pytestmark = pytest.mark.unit

IN_CI, IN_FULL = 2_000, 20_000
SOUND, QUIET = st.integers(1, 3 * FRAME_SAMPLES), st.integers(1, 4)

OPERATION = st.one_of(
    st.tuples(st.just("append"), SOUND),
    st.tuples(st.just("append"), SOUND),
    st.tuples(st.just("silence"), QUIET),
    st.tuples(st.just("step"), st.integers(1, 12)),
    st.tuples(st.just("step"), st.integers(1, 12)),
    st.tuples(st.just("wait"), st.sampled_from([0.01, 0.08, 0.5, 3.0, 40.0])),
    st.tuples(st.just("cancel"), st.sampled_from(["hard", "soft", None])),
    st.tuples(st.just("create"), st.none()),
    st.tuples(st.just("commit"), st.booleans()),
    st.tuples(st.just("clear"), st.none()),
    st.tuples(st.just("update"), st.sampled_from(["a", "b", "x" * 5000])),
    st.tuples(st.just("repeat"), st.none()),
    st.tuples(st.just("refuse"), st.integers(1, 3)),
    st.tuples(st.just("cleanup fails"), st.integers(1, 2)),
    st.tuples(st.just("settle"), st.none()),
)
ENDING = st.one_of(
    st.tuples(st.sampled_from(["close", "socket loss", "call fails", "fault", "drain"]), st.none()),
    st.tuples(st.just("task cancelled"), st.sampled_from([0.0, 0.0005, 0.002, 0.01, 0.3])),
)
"""A task is cancelled so many seconds later, where an operation takes a millisecond."""
Step = tuple[str, Any]
STEPS = st.builds(
    lambda before, ending, after: [*before, ending, *after],
    st.lists(OPERATION, max_size=30),
    ENDING,
    st.lists(st.one_of(OPERATION, ENDING), max_size=10),
)
POLICIES = st.sampled_from([DUPLEX, STOCK, ROOM, CHAT])


@dataclass
class Run:
    """One sequence on one session."""

    policy: Policy
    continued: bool
    sample: int = 0
    soft: bool = False
    cut: bool = False
    """Something was dropped on purpose, or padded: not every sample has to arrive."""
    epochs_at_output: list[tuple[int, int]] = field(default_factory=list)

    async def play(self, steps: list[Step]) -> None:
        self.engine = FakeEngine(max_sessions=1, script=self.says, step_s=None)
        self.refusals = 0
        self.engine.fail_submits = self.refuses
        self.sink = ListSink()
        self.manager = SessionManager(self.engine)
        self.session = self.manager.open(self.policy, self.sink)
        if self.continued:
            self.session.adjust(continuation=DUPLEX_CONTINUATION)
        record = self.sink.output
        self.sink.output = lambda frame: self.note(record, frame)  # type: ignore[method-assign]
        left = deque(steps)
        while left:
            # One that is cancelled leaves steps to another, as one track of a call does.
            handler = asyncio.create_task(self.handle(left))
            await asyncio.wait([handler])
            if not handler.cancelled():
                handler.result()
        self.session.close("disconnect")
        await asyncio.sleep(30)
        self.check()

    async def handle(self, left: deque[Step]) -> None:
        """As a transport does: whatever happens, the session is closed on the way out."""
        try:
            while left:
                name, value = left.popleft()
                try:
                    await self.do(name, value)
                except SessionError:
                    pass  # refused: the session goes on
                await asyncio.sleep(value if name == "wait" else 0.001)
                self.check_account()
        except asyncio.CancelledError:
            self.session.close("disconnect")
            raise

    async def do(self, name: str, value: Any) -> None:
        if name == "settle":
            await self.settle()
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
            self.operate(name, value)

    async def settle(self) -> None:
        """What was begun is stepped to its end."""
        await asyncio.sleep(0.2)
        self.engine.step(60)
        await asyncio.sleep(0.2)

    def operate(self, name: str, value: Any) -> None:
        if name == "append":
            self.append(value)
        elif name == "silence":
            self.push(np.zeros(value * FRAME_SAMPLES, np.float32))
        elif name == "step":
            self.engine.step(value)
        elif name == "cancel":
            self.soft |= (value or self.policy.cancel_mode) == "soft"
            self.cut = True
            self.session.cancel(value)
        elif name == "create":
            self.session.create_response({"n": "1"})
        elif name == "commit":
            self.cut |= value
            self.session.commit(final=value)
        elif name == "clear":
            self.cut = True
            self.session.clear_input()
        elif name == "update" and not self.session.bound:
            self.session.configure(SessionSpec("NATM1.pt", value))
        elif name == "repeat":
            self.repeat_results()
        elif name == "refuse":
            self.refusals = value
        elif name == "cleanup fails":
            self.engine.cleanup_failures = value

    def append(self, count: int) -> None:
        numbered = np.arange(self.sample + 1, self.sample + count + 1, dtype=np.float32)
        self.push(numbered)
        self.sample += count

    def push(self, samples: np.ndarray) -> None:
        if self.policy is not ROOM:
            self.session.append(samples)
            return
        self.cut = True  # a room may drop, and takes whole frames only
        for start in range(0, samples.size - FRAME_SAMPLES + 1, FRAME_SAMPLES):
            self.session.push_frame(samples[start : start + FRAME_SAMPLES])

    def says(self, epoch: int, seq: int, pcm: Pcm) -> Said:
        return Said(" w", 50, 0.1) if seq % 23 < 9 else Said()

    def refuses(self) -> bool:
        self.refusals -= 1
        return self.refusals >= 0

    def repeat_results(self) -> None:
        """Every identity so far is delivered once more, of this epoch and of old ones."""
        for _, _, epoch, seq in self.engine.stepped[-5:]:
            stale = FrameResult(
                epoch, seq, 0, np.ones(FRAME_SAMPLES, np.float32), "!", 9, (), False
            )
            self.engine.repeat(stale)

    def note(self, record: Callable[[OutputFrame], None], frame: OutputFrame) -> None:
        self.epochs_at_output.append((frame.epoch, self.session.epoch))
        record(frame)

    # What must hold.

    def check_account(self) -> None:
        count, session = self.session.counters, self.session
        left = session._intake.pending
        dropped = count.dropped_overflow + count.dropped_cancel + count.dropped_close
        assert count.accepted == count.stepped + dropped + left
        assert count.stepped == count.emitted + count.withheld
        assert session._intake._framer.seq <= count.submitted

    def check(self) -> None:
        self.check_account()
        self.check_identities()
        self.check_samples()
        self.check_events()
        assert self.engine.stats().used == 0 and self.engine.releases == 1
        assert self.session.state == "closed" and not self.manager.sessions
        assert asyncio.all_tasks() == {asyncio.current_task()}

    def check_identities(self) -> None:
        """Each is stepped once, without a hole; each is heard at most once, of its own epoch."""
        assert len(set(self.engine.stepped)) == len(self.engine.stepped)
        by_epoch: dict[int, list[int]] = {}
        for _, _, epoch, seq in self.engine.stepped:
            by_epoch.setdefault(epoch, []).append(seq)
        for sequence in by_epoch.values():
            assert sequence == list(range(1, len(sequence) + 1))
        heard = [(frame.epoch, frame.seq) for frame in self.sink.frames]
        assert len(set(heard)) == len(heard) and heard == sorted(heard)
        assert all(made == current for made, current in self.epochs_at_output)
        assert all(frame.text != "!" for frame in self.sink.frames)
        if self.policy in (DUPLEX, CHAT) and not self.soft:
            assert self.session.counters.withheld == 0

    def check_samples(self) -> None:
        """The engine heard numbered samples in order, none twice, none from the middle missing."""
        runs = [pcm[pcm != 0] for pcm in self.engine.heard]
        heard = np.concatenate(runs) if runs else np.zeros(0)
        assert (np.diff(heard) > 0).all()
        if not self.cut and self.session.counters.refused == 0 and heard.size:
            assert (np.diff(heard) == 1).all() and heard[0] == 1

    def check_events(self) -> None:
        """Responses open and end in turn; frames belong to the open one; one last event."""
        current, seen = None, set()
        for name, payload in self.sink.events:
            if name == "started":
                assert current is None and payload.id not in seen
                current = payload.id
                seen.add(current)
            elif name == "done":
                assert payload.id == current
                current = None
            elif name == "output":
                assert payload.response_id == current
                assert current is not None or not self.policy.only_responses
        assert current is None
        assert self.sink.names.count("closed") == 1 and self.sink.names[-1] == "closed"


def sequences(count: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        drawn = given(
            policy=POLICIES,
            continued=st.booleans(),
            steps=STEPS,
        )(test)
        phases = (Phase.explicit, Phase.generate, Phase.shrink)
        checks = settings(
            max_examples=count,
            deadline=None,
            database=None,
            phases=phases,
            suppress_health_check=list(HealthCheck),
        )
        return seed(SEED)(checks(drawn))

    return decorate


# contract: A3 C2 C3 C6 D1 D2 D3 E1 E2 E3 J2


@sequences(IN_CI)
def test_any_sequence(**drawn: Any) -> None:
    play(**drawn)


@pytest.mark.full
@pytest.mark.timeout(1800)
@sequences(IN_FULL)
def test_any_sequence_at_length(**drawn: Any) -> None:
    play(**drawn)


def play(policy: Policy, continued: bool, steps: list[Step]) -> None:
    run(Run(policy, continued and policy is DUPLEX).play(steps))
