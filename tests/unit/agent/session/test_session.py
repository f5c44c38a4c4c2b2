"""A session on the scripted engine, in virtual time: frames, epochs, the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
import pytest

from agent.errors import Refused, SessionError
from agent.manager import SessionManager
from agent.policy import CHAT, DUPLEX, ROOM, STOCK
from agent.session import Session
from model import FRAME_SAMPLES, FrameResult, SessionSpec
from tests.fakes.clock import run
from tests.fakes.engine import FakeEngine
from tests.fakes.sink import ListSink

pytestmark = pytest.mark.unit

Scene = Callable[[], Coroutine[Any, Any, None]]


def frames(count: int, amplitude: float = 0.0) -> np.ndarray:
    return np.full(count * FRAME_SAMPLES, amplitude, np.float32)


async def settle(seconds: float = 0.5) -> None:
    await asyncio.sleep(seconds)


def opened(engine: FakeEngine, policy: Any = DUPLEX) -> tuple[Session, ListSink]:
    sink = ListSink()
    return SessionManager(engine).open(policy, sink), sink


def test_one_frame_in_one_frame_out() -> None:  # contract: C6
    async def scene() -> None:
        session, sink = opened(FakeEngine())
        session.append(frames(5))
        await settle()
        assert [frame.seq for frame in sink.frames] == [1, 2, 3, 4, 5]
        assert session.counters.accepted == session.counters.emitted == 5

    run(scene())


def test_any_chunking_gives_the_same_frames() -> None:  # contract: C2
    async def scene() -> None:
        rng = np.random.default_rng(7)
        sound = rng.uniform(-1, 1, 4 * FRAME_SAMPLES + 100).astype(np.float32)
        engine = FakeEngine()
        session, sink = opened(engine)
        for start in range(0, sound.size, 37):
            session.append(sound[start : start + 37])
        await settle()
        whole = sound[: 4 * FRAME_SAMPLES].reshape(4, FRAME_SAMPLES)
        assert np.array_equal(np.stack(engine.heard), whole)
        assert len(sink.frames) == 4

    run(scene())


def test_many_frames_in_one_append_go_at_once() -> None:  # contract: C2
    async def scene() -> None:
        engine = FakeEngine(step_s=None)
        session, _ = opened(engine)
        session.append(frames(10))
        assert session.counters.submitted == 10

    run(scene())


def test_refused_submit_rolls_back_and_is_tried_again() -> None:  # contract: C3
    async def scene() -> None:
        engine = FakeEngine()
        refusals = iter([False, True, True, False])
        engine.fail_submits = lambda: next(refusals, False)
        session, sink = opened(engine)
        session.append(np.arange(3 * FRAME_SAMPLES, dtype=np.float32) / 1e5)
        assert session.counters.rolled_back == 1
        await settle()
        assert [frame.seq for frame in sink.frames] == [1, 2, 3]
        heard = np.concatenate(engine.heard)
        assert np.array_equal(heard, np.arange(3 * FRAME_SAMPLES, dtype=np.float32) / 1e5)

    run(scene())


def test_repeated_result_is_heard_once() -> None:  # contract: C3
    async def scene() -> None:
        engine = FakeEngine()
        session, sink = opened(engine)
        session.append(frames(1))
        await settle()
        again = FrameResult(0, 1, 1, frames(1), "x", 9, (0,) * 8, False)
        engine.repeat(again)
        await settle()
        assert len(sink.frames) == 1
        assert session.counters.stale == 1

    run(scene())


@pytest.mark.parametrize(("policy", "bound"), [(DUPLEX, 25), (STOCK, 750)])
def test_overflow_refuses_the_append_whole(policy: Any, bound: int) -> None:  # contract: C4
    async def scene() -> None:
        session, _ = opened(FakeEngine(step_s=None), policy)
        session.append(frames(bound - 1))
        with pytest.raises(SessionError, match="nothing of this append") as refused:
            session.append(frames(2))
        assert refused.value.code == "input_backpressure"
        session.append(frames(1))
        assert session.counters.submitted == bound

    run(scene())


def test_room_keeps_two_frames_and_drops_the_oldest() -> None:  # contract: C4
    async def scene() -> None:
        engine = FakeEngine(step_s=None)
        session, sink = opened(engine, ROOM)
        session.bind()
        for number in range(6):
            session.push_frame(frames(1, number / 10))
        assert session.counters.dropped_overflow == 3
        await settle()
        for _ in range(3):
            engine.step()
            await settle()
        assert [round(float(pcm[0]), 1) for pcm in engine.heard] == [0.0, 0.4, 0.5]
        assert [frame.seq for frame in sink.frames] == [1, 2, 3]

    run(scene())


def test_final_commit_pads_and_steps_the_rest() -> None:  # contract: C5
    async def scene() -> None:
        engine = FakeEngine()
        session, sink = opened(engine)
        session.append(np.ones(FRAME_SAMPLES + 100, np.float32))
        session.commit(final=True)
        await settle()
        assert len(sink.frames) == 2
        assert engine.heard[1].sum() == 100

    run(scene())


def test_residual_is_dropped_on_close() -> None:  # contract: C5
    async def scene() -> None:
        engine = FakeEngine()
        session, _ = opened(engine)
        session.append(np.ones(FRAME_SAMPLES + 100, np.float32))
        await settle()
        session.close("client_close")
        await session.wait_closed()
        assert len(engine.stepped) == 1

    run(scene())


def test_empty_commit_is_refused() -> None:  # contract: F5
    async def scene() -> None:
        for policy in (DUPLEX, STOCK):
            session, _ = opened(FakeEngine(), policy)
            session.append(frames(1))
            session.commit()
            with pytest.raises(SessionError) as refused:
                session.commit()
            assert refused.value.code == "input_audio_buffer_empty"

    run(scene())


def test_hard_cancel_starts_a_new_epoch() -> None:  # contract: E1
    async def scene() -> None:
        engine = FakeEngine()
        session, sink = opened(engine)
        session.append(frames(3))
        await settle()
        first = sink.all("started")[0].id
        session.append(frames(2))
        session.cancel()
        session.append(frames(2))
        await settle()
        assert session.epoch == 1
        late = [frame for frame in sink.frames if frame.epoch == 0]
        assert len(late) == 3, "frames that were not stepped belong to no epoch any more"
        assert [frame.seq for frame in sink.frames if frame.epoch == 1] == [1, 2]
        assert [end.reason for end in sink.all("done")] == ["client_cancelled"]
        assert sink.all("started")[1].id != first
        assert [epoch for epoch, _ in sink.all("bound")] == [0, 1]

    run(scene())


def test_unsubmitted_samples_survive_a_hard_cancel() -> None:  # contract: E1
    async def scene() -> None:
        engine = FakeEngine()
        session, sink = opened(engine)
        session.append(np.ones(FRAME_SAMPLES + 900, np.float32))
        await settle()
        session.cancel()
        session.append(np.ones(FRAME_SAMPLES - 900, np.float32))
        await settle()
        assert [(frame.epoch, frame.seq) for frame in sink.frames] == [(0, 1), (1, 1)]

    run(scene())


def test_cancel_needs_no_further_slot() -> None:  # contract: A4
    async def scene() -> None:
        engine = FakeEngine(max_sessions=2)
        manager = SessionManager(engine)
        sinks = [ListSink(), ListSink()]
        sessions = [manager.open(DUPLEX, sink) for sink in sinks]
        for _ in range(100):
            for session in sessions:
                session.append(frames(1))
            await settle()
            for session in sessions:
                session.cancel()
        assert engine.stats().used == 2
        assert [session.epoch for session in sessions] == [100, 100]

    run(scene())


def test_cancel_without_a_response_is_refused() -> None:  # contract: E2
    async def scene() -> None:
        for policy in (DUPLEX, STOCK):
            session, _ = opened(FakeEngine(), policy)
            with pytest.raises(SessionError, match="Cancellation failed") as refused:
                session.cancel()
            assert refused.value.code == "response_not_active"
            assert not session.holding

    run(scene())


def test_talking_over_the_agent_changes_nothing() -> None:  # contract: E4
    async def scene() -> None:
        session, sink = opened(FakeEngine())
        for _ in range(125):
            session.append(frames(1, 0.5))
            await settle(0.08)
        assert session.epoch == 0
        assert len(sink.frames) == 125
        assert len(sink.all("started")) == 1 and not sink.all("done")

    run(scene())


def test_close_ends_the_response_and_then_the_session() -> None:  # contract: D3
    async def scene() -> None:
        session, sink = opened(FakeEngine())
        session.append(frames(2))
        await settle()
        session.close("client_close")
        session.close("again")
        await session.wait_closed()
        assert sink.names[-2:] == ["done", "closed"]
        end = sink.all("done")[0]
        assert (end.status, end.reason) == ("cancelled", "session_closed")
        assert sink.all("closed") == [("client_close", False)]

    run(scene())


def test_duplex_keeps_one_response_for_an_epoch() -> None:  # contract: D2
    async def scene() -> None:
        from tests.fakes.engine import Said

        def bursts(epoch: int, seq: int, pcm: np.ndarray) -> Said:
            return Said(" a", 50, 0.1) if seq % 40 < 10 else Said()

        session, sink = opened(FakeEngine(script=bursts))
        for _ in range(120):
            session.append(frames(1))
            await settle(0.08)
        assert len(sink.all("started")) == 1
        assert {frame.response_id for frame in sink.frames} == {sink.all("started")[0].id}
        assert len(sink.frames) == 120

    run(scene())


def test_no_input_closes_after_thirty_seconds() -> None:  # contract: A6
    async def scene() -> None:
        for policy in (DUPLEX, STOCK, CHAT):
            session, sink = opened(FakeEngine(), policy)
            await settle(29.9)
            assert session.state == "open"
            await settle(0.2)
            assert sink.all("closed") == [("no_input", False)]

    run(scene())


def test_response_create_counts_as_input() -> None:  # contract: A6
    async def scene() -> None:
        session, _ = opened(FakeEngine(), STOCK)
        session.create_response()
        await settle(40)
        assert session.state == "open"

    run(scene())


def test_an_idle_session_expires() -> None:  # contract: A6
    async def scene() -> None:
        session, sink = opened(FakeEngine())
        session.append(frames(1))
        await settle(200)
        session.touch()
        await settle(299)
        assert session.state == "open"
        await settle(2)
        assert sink.all("closed") == [("idle_ttl_expired", True)]

    run(scene())


def test_a_room_is_exempt_from_both_timers() -> None:  # contract: A6
    async def scene() -> None:
        session, _ = opened(FakeEngine(), ROOM)
        await settle(1000)
        assert session.state == "open"

    run(scene())


def test_a_replacement_sees_nothing_of_the_last() -> None:  # contract: A5
    async def scene() -> None:
        engine = FakeEngine(max_sessions=1)
        manager = SessionManager(engine)
        first = manager.open(DUPLEX, ListSink(), SessionSpec("NATM1.pt", "pirate"))
        first.append(np.ones(FRAME_SAMPLES + 500, np.float32))
        await settle()
        first.close("client_close")
        await first.wait_closed()
        sink = ListSink()
        second = manager.open(DUPLEX, sink)
        assert second.id != first.id and second.id.startswith("duplex-")
        assert second.spec == engine.default_spec
        second.append(frames(1))
        await settle()
        assert engine.heard[-1].sum() == 0 and sink.frames[0].seq == 1

    run(scene())


def test_failed_call_says_why_and_closes() -> None:  # contract: I5
    async def scene() -> None:
        engine = FakeEngine()
        session, sink = opened(engine)
        session.append(frames(1))
        await settle()
        engine.fail("call_failed", "a row was not finite")
        await settle()
        assert sink.names[-3:] == ["error", "done", "closed"]
        assert sink.all("done")[0].status == "failed"
        assert engine.stats().used == 0
        assert session.state == "closed"

    run(scene())


def test_device_fault_closes_every_call_and_calls_back() -> None:  # contract: I5
    async def scene() -> None:
        engine = FakeEngine()
        manager = SessionManager(engine)
        told: list[bool] = []
        manager.on_fault(lambda: told.append(True))
        sinks = [ListSink(), ListSink()]
        for sink in sinks:
            manager.open(DUPLEX, sink).append(frames(1))
        await settle()
        engine.fail("engine_fault")
        await settle()
        assert [sink.all("closed") for sink in sinks] == [[("engine_fault", False)]] * 2
        assert told and not manager.ready
        with pytest.raises(Refused) as refused:
            manager.open(DUPLEX, ListSink())
        assert refused.value.code == "engine_fault"

    run(scene())
