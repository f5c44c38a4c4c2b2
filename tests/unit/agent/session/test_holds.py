"""Soft cancel in virtual time: what a hold silences, and what ends it."""

from __future__ import annotations

import asyncio

import pytest

from agent.policy import DUPLEX, ROOM
from agent.session import Session
from tests.fakes.clock import run
from tests.unit.agent.session.calls import FRAME_S, frames, opened, paced, speaking

pytestmark = pytest.mark.unit


async def interrupted(session: Session, during: int, person: list[tuple[int, float]]) -> None:
    await paced(session, during)
    session.cancel()
    for count, amplitude in person:
        await paced(session, count, amplitude)


def test_soft_cancel_holds_until_spoken_and_paused() -> None:  # contract: E2
    async def scene() -> None:
        session, sink = opened(speaking(range(3, 400)))
        await interrupted(session, 20, [(3, 0.1), (4, 0.0)])
        assert session.holding and session.epoch == 0
        assert [end.reason for end in sink.all("done")] == ["client_cancelled"]
        assert not [frame for frame in sink.frames if frame.held]
        await paced(session, 2)
        assert not session.holding
        await paced(session, 5)
        assert len(sink.all("started")) == 2, "the next utterance opens a new response"

    run(scene())


def test_a_cough_does_not_end_a_hold_and_twelve_seconds_do() -> None:  # contract: E2
    async def scene() -> None:
        session, _ = opened(speaking(range(3, 400)))
        await interrupted(session, 20, [(2, 0.1), (147, 0.0)])
        assert session.holding
        await paced(session, 2)
        assert not session.holding

    run(scene())


def test_create_ends_a_hold() -> None:  # contract: E2
    async def scene() -> None:
        session, sink = opened(speaking(range(3, 400)))
        await interrupted(session, 20, [(2, 0.0)])
        session.create_response()
        assert not session.holding
        await paced(session, 4)
        assert sink.all("started")[-1].requested

    run(scene())


def test_soft_cancel_in_duplex_sends_nothing_that_is_held() -> None:  # contract: D2
    async def scene() -> None:
        session, sink = opened(speaking(range(1, 400)), DUPLEX)
        session.adjust(cancel_mode="soft")
        await interrupted(session, 10, [(3, 0.1), (6, 0.0), (5, 0.0)])
        first, second = sink.all("started")
        assert first.id != second.id and session.epoch == 0
        assert not [frame for frame in sink.frames if frame.held]
        heard = [frame.seq for frame in sink.frames]
        assert heard == sorted(set(heard)) and session.counters.withheld > 0
        assert session.counters.withheld + len(heard) == session.counters.stepped

    run(scene())


def test_a_held_room_goes_on_with_silence() -> None:  # contract: E2
    async def scene() -> None:
        session, sink = opened(speaking(range(3, 400)), ROOM)
        session.bind()
        for number in range(30):
            if number == 10:
                session.cancel()
            session.push_frame(frames(1))
            await asyncio.sleep(FRAME_S)
        assert len(sink.frames) == 30
        assert not any(frame.pcm.any() for frame in sink.frames[10:])
        assert {frame.response_id for frame in sink.frames[10:]} == {None}

    run(scene())


def test_hard_cancel_in_stock_mood_on_request() -> None:  # contract: E3
    async def scene() -> None:
        session, _ = opened(speaking(range(3, 400)))
        session.adjust(cancel_mode="hard")
        await interrupted(session, 20, [(2, 0.0)])
        assert session.epoch == 1 and not session.holding

    run(scene())


def test_a_hold_lasts_until_the_question_before_a_create_was_heard() -> None:  # contract: E2 F4
    async def scene() -> None:
        session, sink = opened(speaking(range(3, 400)))
        await interrupted(session, 20, [])
        engine = session._engine
        engine.step_s = None
        session.append(frames(10, 0.2))
        session.create_response()
        for _ in range(10):
            assert session.holding
            engine.step()
            await asyncio.sleep(0.01)
        assert not session.holding
        assert sink.all("started")[-1].requested
        assert len(sink.all("started")) == 2

    run(scene())
