"""The bundled demo in a room: questions in a synthesised voice, answers recognised by ear."""

from __future__ import annotations

import numpy as np
import pytest
import soxr

from model.core import SAMPLE_RATE
from model.demo.texts import TEXTS, load_texts
from tests.e2e.asking import QUESTIONS, heard_lines, spoken
from tests.e2e.caller import RATE, Caller, Sound
from tests.e2e.conftest import WorkerFactory
from tests.e2e.processes import LiveKitServer

pytestmark = pytest.mark.e2e
GREETING_SECONDS, ANSWER_SECONDS = 4, 5


async def test_three_questions_get_their_answers(
    livekit: LiveKitServer, start_worker: WorkerFactory, room_name: str
) -> None:
    await start_worker("--model", "demo", "--max-sessions", "1", echo=False)
    async with Caller(livekit.url, room_name) as who:
        await who.until_agent()
        await who.say(pause(GREETING_SECONDS))
        for question in QUESTIONS:
            await who.say(soxr.resample(spoken(question.words), SAMPLE_RATE, RATE))
            await who.say(pause(ANSWER_SECONDS))
    lines = heard_lines(who.sound())
    print("heard:", lines)
    greeting = load_texts(TEXTS).personas[0].greeting
    assert lines == [greeting, *(question.answer for question in QUESTIONS)]


def pause(seconds: float) -> Sound:
    return np.zeros(int(seconds * RATE), dtype=np.float32)
