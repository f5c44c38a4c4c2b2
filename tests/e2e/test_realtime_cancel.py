"""The bundled demo cancelled in the middle of an answer, over a real socket: soft and hard."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from model import FRAME_SAMPLES, Engine
from tests.e2e.asking import QUESTIONS, answer_to, made_out, squeeze
from tests.e2e.caller import Sound
from tests.e2e.demo_call import (
    GREETING,
    GREETING_FRAMES,
    MID_ANSWER_FRAMES,
    asked,
    lines_in,
    silence,
)
from tests.e2e.patience import PATIENCE_SECONDS
from tests.fakes.server import Client, Server, serving, until_free

pytestmark = pytest.mark.e2e

MOUNTAIN, SKY, _ = QUESTIONS
HELD_FRAMES = 25
DELTA = "response.output_audio.delta"
WORDS = "response.output_audio_transcript.delta"


def sound_of(events: list[dict[str, Any]]) -> bytes:
    return b"".join(base64.b64decode(one["delta"]) for one in events if one["type"] == DELTA)


def words_of(events: list[dict[str, Any]]) -> str:
    return squeeze("".join(one["delta"] for one in events if one["type"] == WORDS))


def is_begun(words: str, answer: str) -> bool:
    return bool(words) and answer.startswith(words) and words != answer


async def stepped(server: Server) -> None:
    """All that was sent has been stepped; silence of the server's own comes a while later."""
    (session,) = server.manager.sessions
    for _ in range(int(PATIENCE_SECONDS / 0.01)):
        if not session.busy:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("a frame was not stepped")


async def cancelled(client: Client) -> tuple[dict[str, Any], int]:
    """The end of the open response, and how many events have been seen with it."""
    await client.send("response.cancel", event_id="evt_cancel")
    done: dict[str, Any] = (await client.until("response.done"))["response"]
    assert done["status"] == "cancelled" and not client.all("error")
    return done, len(client.seen)


async def test_after_a_soft_cancel_the_old_answer_is_not_taken_up_and_the_next_question_is_answered(
    demo_engine: Engine,
) -> None:  # contract: E2 I7
    async with serving(demo_engine) as server:
        async with server.connect("/v1/realtime?model=demo") as client:
            await client.until("session.updated")
            await client.append(asked(MOUNTAIN, after=MID_ANSWER_FRAMES))
            greeted = (await client.until("response.done"))["response"]
            assert greeted["status"] == "completed"
            await client.until("response.created")
            before = len(client.seen)
            await client.until(WORDS)
            await stepped(server)
            cut, after = await cancelled(client)
            old = client.seen[before:after]
            assert is_begun(words_of(old), MOUNTAIN.answer)
            answers: list[str] = []

            async def put() -> str:
                await client.append(asked(SKY, before=HELD_FRAMES))
                done = (await client.until("response.done"))["response"]
                assert done["status"] == "completed"
                answers.append(done["id"])
                return words_of(
                    [one for one in client.seen if one.get("response_id") == done["id"]]
                )

            assert await answer_to(put) == SKY.answer, "the old answer is not taken up again"
            new = client.seen[after:]
            assert cut["id"] not in answers
            assert {one["response_id"] for one in new if one["type"] == DELTA} == set(answers)
            assert made_out(lines_in(sound_of(new))) == [SKY.answer]
            assert {one["metadata"]["epoch"] for one in client.all(DELTA)} == {0}
        await until_free(server)


async def said(client: Client, sound: Sound) -> list[dict[str, Any]]:
    """The events of this sound, of which each frame is answered before the next is sent."""
    before = len(client.seen)
    for start in range(0, sound.size, FRAME_SAMPLES):
        await client.append(sound[start : start + FRAME_SAMPLES])
        await client.until(WORDS)
    return client.seen[before:]


async def test_after_a_hard_cancel_the_conversation_begins_anew(
    demo_engine: Engine,
) -> None:  # contract: E1 D2
    async with serving(demo_engine) as server:
        async with server.connect("/v1/duplex?model=demo") as client:
            await client.until("session.updated")
            greeting = await said(client, silence(GREETING_FRAMES))
            old = await said(client, asked(MOUNTAIN, before=0, after=MID_ANSWER_FRAMES))
            assert words_of(greeting) == GREETING and is_begun(words_of(old), MOUNTAIN.answer)
            cut, after = await cancelled(client)
            again = await said(client, silence(GREETING_FRAMES))
            assert words_of(again) == GREETING and sound_of(again) == sound_of(greeting)
            answer = await said(client, asked(SKY, before=0))
            assert words_of(answer) == SKY.answer and lines_in(sound_of(answer)) == [SKY.answer]
            new = [one for one in client.seen[after:] if one["type"] == DELTA]
            assert {one["metadata"]["epoch"] for one in new} == {1}
            assert len({one["response_id"] for one in new} | {cut["id"]}) == 2
        await until_free(server)
