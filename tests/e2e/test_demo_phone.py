"""The bundled demo on a telephone: greeting and answer recognised by ear, digits, the hang-up."""

from __future__ import annotations

import numpy as np
import pytest

from model.demo.sounds import telephone
from model.demo.texts import TEXTS, load_texts
from tests.e2e.accounts import check_chain
from tests.e2e.asking import LOUD, QUESTIONS, ask, heard_lines, made_out, spoken, until_said
from tests.e2e.conftest import WorkerFactory
from tests.e2e.phones import phone_in, press, set_status
from tests.e2e.processes import LiveKitServer
from tests.e2e.sounds import at_microphone

pytestmark = pytest.mark.e2e
RINGING_PIECES = 50


# contract: H7
async def test_a_phone_is_greeted_and_answered(
    livekit: LiveKitServer, start_worker: WorkerFactory, room_name: str
) -> None:
    worker = await start_worker("--model", "demo", "--max-sessions", "1", echo=False)
    question = QUESTIONS[-1]
    phone = phone_in(livekit.url, room_name)
    await phone.connect()
    await phone.publish()
    await phone.until("some ringing", lambda: len(phone.heard) > RINGING_PIECES)
    ringing = await phone.stats()
    assert ringing["frames"]["accepted"] == 0
    assert np.abs(phone.sound()).max() < LOUD

    await set_status(phone, "active")
    await until_said(phone, 1)
    await ask(phone, at_microphone(telephone(spoken(question.words))))
    lines = heard_lines(phone.sound())
    print("heard:", lines, "read:", [segment.text for segment in phone.segments])
    assert made_out(lines) == [load_texts(TEXTS).personas[0].greeting, question.answer]

    await press(phone, "5")
    await phone.until("the digit", lambda: phone.of_type("dtmf"))
    await press(phone, "#")
    await phone.until("the line to go dead", lambda: not phone.room.isconnected())
    await phone.leave()
    account = await worker.ended(ringing["session"])
    check_chain(account)
    assert account["reason"] == "hangup_key"
    await worker.reach_idle()
