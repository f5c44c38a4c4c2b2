"""Sessions around the bundled demo: cancelled in mid-answer, talked over, heard at any rate."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace
from typing import Self

import numpy as np
import pytest
import soxr

from agent.manager import SessionManager
from agent.policy import CHAT, STOCK, Policy
from agent.sink import OutputFrame
from model import FRAME_SAMPLES, SAMPLE_RATE, Engine
from tests.e2e.asking import QUESTIONS, heard_lines, spoken, squeeze
from tests.e2e.caller import Sound
from tests.e2e.demo_call import (
    GREETING,
    GREETING_FRAMES,
    MID_ANSWER_FRAMES,
    STILL_THERE,
    asked,
    silence,
)
from tests.e2e.realtime import pcm16
from tests.fakes.server import serving, until_free
from tests.fakes.sink import ListSink

pytestmark = pytest.mark.e2e

MOUNTAIN, SKY, TOWELS = QUESTIONS
SOFT = replace(STOCK, only_responses=False, continuation=None)
"""Stock mood, of which every frame is seen and every frame is the test's own."""
HARD = CHAT
"""Duplex mood with room for a whole question."""
PAD = 3
TWELVE_SECONDS = 150
TEN_SECONDS = 125
PATIENCE_S = 60.0


class Call:
    """One call without a wire, frame by frame as a microphone would; keeps what came of it."""

    def __init__(self, engine: Engine, policy: Policy) -> None:
        self.sink = ListSink()
        self.session = SessionManager(engine).open(policy, self.sink)

    async def say(self, sound: Sound) -> list[OutputFrame]:
        """The frames that come for this sound."""
        before = len(self.sink.frames)
        for start in range(0, sound.size, FRAME_SAMPLES):
            self.session.append(sound[start : start + FRAME_SAMPLES])
            await self._stepped()
        return self.sink.frames[before:]

    async def _stepped(self) -> None:
        for _ in range(int(PATIENCE_S / 0.002)):
            if not self.session.busy:
                return
            await asyncio.sleep(0.002)
        raise AssertionError("a frame was not stepped")

    async def until_mid_answer(self) -> list[OutputFrame]:
        """Greeted, asked, and in the middle of the answer; all frames so far."""
        frames = await self.say(silence(GREETING_FRAMES))
        assert words(frames) == GREETING
        answer = await self.say(asked(MOUNTAIN, before=0, after=MID_ANSWER_FRAMES))
        begun = words(answer)
        assert begun and MOUNTAIN.answer.startswith(begun) and begun != MOUNTAIN.answer
        return frames + answer

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.session.close("client_close")
        await asyncio.wait_for(self.session.wait_closed(), PATIENCE_S)
        assert self.sink.all("closed") == [("client_close", False)]


def words(frames: list[OutputFrame]) -> str:
    return squeeze("".join(frame.text for frame in frames))


def lines(frames: list[OutputFrame]) -> list[str]:
    return heard_lines(np.concatenate([frame.pcm for frame in frames]))


async def test_after_a_soft_cancel_the_next_question_is_answered(
    demo_engine: Engine,
) -> None:  # contract: E2 I7
    async with Call(demo_engine, SOFT) as call:
        before = await call.until_mid_answer()
        cut = call.session.response
        assert cut is not None
        call.session.cancel()
        end = call.sink.all("done")[-1]
        assert (end.id, end.status, end.reason) == (cut.id, "cancelled", "client_cancelled")
        held = await call.say(silence(25))
        assert call.session.holding and all(frame.held for frame in held)
        # What the first one emits was decided a position before.
        assert {frame.text_token for frame in held[1:]} == {PAD}
        after = await call.say(asked(SKY, before=0))
        assert not call.session.holding
        assert words(held + after) == SKY.answer, "the old answer is not taken up again"
        assert lines(held + after) == [SKY.answer]
        end = call.sink.all("done")[-1]
        assert end.id != cut.id and (end.epoch, end.status) == (0, "completed")
        everything = before + held + after
        assert [frame.seq for frame in everything] == list(range(1, len(everything) + 1))
        first = everything[0].position
        assert [frame.position for frame in everything] == list(
            range(first, first + len(everything))
        )


async def test_an_abandoned_answer_stays_so_when_the_hold_runs_out(
    demo_engine: Engine,
) -> None:  # contract: E2
    async with Call(demo_engine, SOFT) as call:
        await call.until_mid_answer()
        call.session.cancel()
        held = await call.say(silence(TWELVE_SECONDS))
        assert not call.session.holding
        assert words(held + await call.say(silence(25))) in ("", STILL_THERE)


async def test_a_hard_cancel_restarts_the_conversation(
    demo_engine: Engine,
) -> None:  # contract: E1 B6
    async with Call(demo_engine, HARD) as call:
        old = await call.until_mid_answer()
        cut = call.session.response
        assert cut is not None
        call.session.cancel()
        assert call.session.epoch == 1
        new = await call.say(silence(GREETING_FRAMES))
        assert [(frame.epoch, frame.seq) for frame in new] == [(1, n + 1) for n in range(len(new))]
        assert {frame.response_id for frame in new}.isdisjoint({cut.id, None})
        # The prefill was replayed and the memory is gone: the same words, codes and samples again.
        again = old[:GREETING_FRAMES]
        for field in ("position", "text_token", "text"):
            assert [getattr(one, field) for one in new] == [getattr(one, field) for one in again]
        assert all(
            np.array_equal(one.pcm, other.pcm) for one, other in zip(new, again, strict=True)
        )
        answer = await call.say(asked(SKY, before=0))
        assert words(answer) == SKY.answer and lines(answer) == [SKY.answer]
        bound = call.sink.all("bound")
        assert [epoch for epoch, _ in bound] == [0, 1] and len({count for _, count in bound}) == 1


async def test_talking_over_the_agent_is_the_models_own_affair(
    demo_engine: Engine,
) -> None:  # contract: E4
    async with Call(demo_engine, SOFT) as call:
        before = await call.until_mid_answer()
        speech = np.concatenate([spoken(question.words) for question in QUESTIONS])
        over = await call.say(np.resize(speech, TEN_SECONDS * FRAME_SAMPLES))
        assert len(over) == TEN_SECONDS and {frame.epoch for frame in over} == {0}
        everything = before + over
        first = everything[0].position
        assert [frame.position for frame in everything] == list(
            range(first, first + len(everything))
        )
        assert not [frame for frame in everything if frame.held]
        assert {end.status for end in call.sink.all("done")} == {"completed"}
        counters = call.session.counters
        assert (counters.epochs, counters.holds, counters.accepted) == (1, 0, len(everything))


@pytest.mark.parametrize("rate", [8_000, 16_000, 44_100, 48_000])
async def test_input_at_any_rate_gives_the_same_words(
    rate: int, demo_engine: Engine
) -> None:  # contract: C1
    sound = soxr.resample(asked(TOWELS), SAMPLE_RATE, rate)
    audio = base64.b64encode(pcm16(sound)).decode()
    async with serving(demo_engine) as server:
        async with server.connect("/v1/realtime?model=demo") as client:
            await client.until("session.updated")
            await client.send("input_audio_buffer.append", audio=audio, sample_rate_hz=rate)
            said = [(await client.until("response.done"))["response"] for _ in range(2)]
        await until_free(server)
    transcripts = [squeeze(one["output"][0]["content"][0]["transcript"]) for one in said]
    assert transcripts == [GREETING, TOWELS.answer]
