"""The bundled demo in a room: questions in a synthesised voice, answers recognised by ear."""

from __future__ import annotations

import pytest
import soxr

from model.core import SAMPLE_RATE
from model.demo.texts import TEXTS, load_texts
from tests.e2e.asking import QUESTIONS, ask, heard_lines, made_out, spoken, until_said
from tests.e2e.caller import RATE, Caller
from tests.e2e.conftest import WorkerFactory
from tests.e2e.processes import LiveKitServer

pytestmark = pytest.mark.e2e


async def test_three_questions_get_their_answers(
    livekit: LiveKitServer, start_worker: WorkerFactory, room_name: str
) -> None:
    await start_worker("--model", "demo", "--max-sessions", "1", echo=False)
    async with Caller(livekit.url, room_name) as who:
        await who.publish()
        await until_said(who, 1)
        for question in QUESTIONS:
            await ask(who, soxr.resample(spoken(question.words), SAMPLE_RATE, RATE))
    lines = heard_lines(who.sound())
    print("heard:", lines)
    greeting = load_texts(TEXTS).personas[0].greeting
    assert made_out(lines) == [greeting, *(question.answer for question in QUESTIONS)]
