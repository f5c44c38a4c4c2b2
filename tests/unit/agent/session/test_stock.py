"""Stock mood in virtual time: responses that follow speech, `response.create`, silence."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from agent.errors import SessionError
from agent.policy import DUPLEX, DUPLEX_CONTINUATION, ROOM
from tests.fakes.clock import run
from tests.fakes.engine import Said
from tests.unit.agent.session.calls import FRAME_S, LOUD_ONLY, frames, opened, paced, speaking

pytestmark = pytest.mark.unit


def test_a_response_opens_at_text_and_ends_after_ten_quiet_frames() -> None:  # contract: F3
    async def scene() -> None:
        session, sink = opened(speaking(range(5, 8)))
        await paced(session, 30)
        assert [info.requested for info in sink.all("started")] == [False]
        assert [frame.seq for frame in sink.frames] == list(range(4, 18))
        end = sink.all("done")[0]
        assert (end.status, end.transcript) == ("completed", " word word word")
        assert session.counters.withheld == 30 - 14

    run(scene())


def test_loudness_alone_opens_at_the_second_frame() -> None:  # contract: F3
    async def scene() -> None:
        session, sink = opened(speaking(range(5, 6), range(10, 13), said=LOUD_ONLY))
        await paced(session, 30)
        # One loud frame is no speech; of the second burst the first frame is the onset.
        assert sink.frames[0].seq == 10
        assert sink.frames[-1].seq == 22
        assert len(sink.all("started")) == 1

    run(scene())


@pytest.mark.parametrize("token", [0, 3])
def test_pads_are_no_text(token: int) -> None:  # contract: F3
    async def scene() -> None:
        session, sink = opened(speaking(range(1, 100), said=Said("", token, 0.0)))
        await paced(session, 30)
        assert not sink.all("started")

    run(scene())


def test_silence_between_words_keeps_the_response_open() -> None:  # contract: F3
    async def scene() -> None:
        session, sink = opened(speaking(range(2, 4), range(13, 15)))
        await paced(session, 40)
        assert len(sink.all("started")) == 1
        session, sink = opened(speaking(range(2, 4), range(14, 16)))
        await paced(session, 40)
        assert len(sink.all("started")) == 2

    run(scene())


def test_create_of_a_paced_client_is_taken_up_at_once() -> None:  # contract: F4
    async def scene() -> None:
        session, sink = opened(speaking(range(40, 45)))
        await paced(session, 20, 0.2)
        session.create_response({"client_event_id": "a"}, "evt_1")
        started = sink.all("started")
        assert [info.requested for info in started] == [True]
        assert started[0].metadata == {"client_event_id": "a"}
        await paced(session, 40)
        assert len(sink.all("started")) == 1
        assert [end.status for end in sink.all("done")] == ["completed"]
        assert sink.all("done")[0].transcript == " word" * 5

    run(scene())


def test_create_waits_for_the_audio_before_it() -> None:  # contract: F4
    async def scene() -> None:
        session, sink = opened(speaking(), step_s=None)
        engine = session._engine
        session.append(np.concatenate([frames(10, 0.2), frames(5)]))
        session.create_response()
        await asyncio.sleep(0.01)
        for step in range(10):
            assert not sink.all("started"), step
            engine.step()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        # The trailing silence need not be stepped first.
        assert [info.requested for info in sink.all("started")] == [True]

    run(scene())


def test_create_waits_for_the_agents_own_response() -> None:  # contract: F4
    async def scene() -> None:
        session, sink = opened(speaking(range(3, 20), range(40, 50)))
        await paced(session, 10)
        session.create_response(event_id="evt_1")
        await paced(session, 80)
        assert [info.requested for info in sink.all("started")] == [False, True]
        assert [end.status for end in sink.all("done")] == ["completed", "completed"]
        assert not sink.all("error")

    run(scene())


def test_create_gives_up_after_a_hundred_frames_of_the_agents_own() -> None:  # contract: F4
    async def scene() -> None:
        session, sink = opened(speaking(range(3, 500)))
        await paced(session, 10)
        session.create_response(event_id="evt_1")
        await paced(session, 99)
        assert not sink.all("error")
        await paced(session, 2)
        error = sink.all("error")[0]
        assert (error.code, error.event_id) == ("response_already_active", "evt_1")
        assert session.response is not None and not session.response.requested

    run(scene())


def test_create_without_speech_ends_incomplete() -> None:  # contract: F4
    async def scene() -> None:
        session, sink = opened(speaking())
        await paced(session, 1)
        session.create_response()
        await paced(session, 99)
        assert not sink.all("done")
        await paced(session, 2)
        end = sink.all("done")[0]
        assert (end.status, end.reason) == ("incomplete", "no_speech")

    run(scene())


def test_a_second_create_is_refused() -> None:  # contract: F4
    async def scene() -> None:
        session, _ = opened(speaking(), step_s=None)
        session.append(frames(5, 0.2))
        session.create_response()
        with pytest.raises(SessionError) as refused:
            session.create_response()
        assert refused.value.code == "response_already_active"

    run(scene())


def test_create_in_duplex_is_refused_once_a_response_is_open() -> None:  # contract: F4
    async def scene() -> None:
        session, sink = opened(speaking(), DUPLEX)
        session.create_response({"a": "b"})
        await paced(session, 2)
        assert sink.all("started")[0].metadata == {"a": "b"}
        with pytest.raises(SessionError) as refused:
            session.create_response()
        assert refused.value.code == "response_already_active"

    run(scene())


# Silence continuation.


def test_no_continuation_within_400_ms() -> None:  # contract: G2
    async def scene() -> None:
        session, _ = opened(speaking())
        for _ in range(10):
            session.append(np.zeros(2400, np.float32))
            await asyncio.sleep(0.1)
        assert session.counters.accepted == 12
        assert session.counters.clocked == 0

    run(scene())


def test_continuation_starts_400_ms_after_the_audio_ran_out() -> None:  # contract: G2
    async def scene() -> None:
        session, sink = opened(speaking())
        session.append(np.zeros(2400, np.float32))  # 100 ms: one frame and a quarter
        await asyncio.sleep(0.1 + 0.4 - 0.02)
        assert session.counters.accepted == 1
        await asyncio.sleep(0.04)
        assert (session.counters.accepted, session.counters.clocked) == (2, 0), "the rest first"
        await asyncio.sleep(0.8)
        assert session.counters.clocked == 10
        assert session.counters.stepped == 12

    run(scene())


def test_audio_ahead_of_time_is_waited_out() -> None:  # contract: G2
    async def scene() -> None:
        session, _ = opened(speaking())
        session.append(frames(50))  # 4 s at once
        await asyncio.sleep(4.3)
        assert session.counters.clocked == 0
        await asyncio.sleep(0.2)
        assert session.counters.clocked > 0

    run(scene())


def test_the_last_step_counts_where_it_is_later() -> None:  # contract: G2
    async def scene() -> None:
        session, _ = opened(speaking(), step_s=None)
        engine = session._engine
        session.append(frames(2))
        await asyncio.sleep(5)
        engine.step(2)
        await asyncio.sleep(0.39)
        assert session.counters.clocked == 0
        await asyncio.sleep(0.02)
        assert session.counters.clocked == 1

    run(scene())


@pytest.mark.parametrize("how", ["commit", "create"])
def test_continuation_starts_at_once_when_the_turn_is_given(how: str) -> None:  # contract: G2
    async def scene() -> None:
        session, _ = opened(speaking())
        session.append(frames(20))
        if how == "commit":
            session.commit()
        else:
            session.create_response()
        await asyncio.sleep(0.2)
        assert session.counters.clocked >= 1

    run(scene())


def test_create_before_any_append_binds_and_clocks() -> None:  # contract: G2
    async def scene() -> None:
        session, sink = opened(speaking(range(5, 8)))
        session.create_response()
        await asyncio.sleep(3)
        assert session.bound
        assert [end.status for end in sink.all("done")] == ["completed"]

    run(scene())


def test_one_silence_frame_per_deadline_and_no_burst_after_a_stall() -> None:  # contract: G1
    async def scene() -> None:
        session, _ = opened(speaking(), step_s=None)
        engine = session._engine
        session.append(frames(1))
        await asyncio.sleep(0.01)
        engine.step()
        session.commit()
        await asyncio.sleep(10)  # nothing is stepped: no pile of silence waits
        assert session.counters.clocked == 1
        for _ in range(25):
            engine.step()
            await asyncio.sleep(FRAME_S)
        assert 24 <= session.counters.clocked <= 27

    run(scene())


def test_real_input_takes_over_at_once() -> None:  # contract: G1
    async def scene() -> None:
        session, _ = opened(speaking())
        session.append(frames(1))
        session.commit()
        await asyncio.sleep(1)
        before = session.counters.clocked
        assert before > 10
        await paced(session, 20)
        assert session.counters.clocked == before
        assert session.counters.accepted == before + 21

    run(scene())


def test_continuation_lasts_thirty_seconds_beyond_a_response() -> None:  # contract: G2
    async def scene() -> None:
        session, sink = opened(speaking(range(3, 500)))
        session.append(frames(2))
        session.commit()
        await asyncio.sleep(60)
        assert len(sink.all("done")) == 1
        last = session.counters.clocked
        # 40 s of speech, ten quiet frames, 30 s beyond; then nothing.
        await asyncio.sleep(60)
        stopped = session.counters.clocked
        assert stopped > last
        assert stopped == pytest.approx((40 + 0.8 + 30) / FRAME_S, abs=5)
        await asyncio.sleep(60)
        assert session.counters.clocked == stopped

    run(scene())


def test_duplex_continuation_is_opt_in_and_bounded() -> None:  # contract: G2
    async def scene() -> None:
        session, _ = opened(speaking(), DUPLEX)
        session.append(frames(1))
        await asyncio.sleep(20)
        assert session.counters.clocked == 0
        session, _ = opened(speaking(), DUPLEX)
        session.adjust(continuation=DUPLEX_CONTINUATION)
        session.append(frames(1))
        await asyncio.sleep(20)
        assert session.counters.clocked == 64
        session.append(frames(1))
        await asyncio.sleep(20)
        assert session.counters.clocked == 128

    run(scene())


def test_rooms_are_not_clocked_by_the_session() -> None:  # contract: G3
    async def scene() -> None:
        session, _ = opened(speaking(), ROOM)
        session.bind()
        session.push_frame(frames(1))
        session.push_frame(frames(1), clocked=True)
        await asyncio.sleep(20)
        assert (session.counters.accepted, session.counters.clocked) == (2, 1)

    run(scene())
