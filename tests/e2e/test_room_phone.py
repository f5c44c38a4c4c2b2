"""A telephone in a room: ringing, picked up, its digits, its end, and what is recorded of it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import soundfile
from livekit import rtc

from model import FRAME_SAMPLES
from tests.e2e.accounts import Account
from tests.e2e.caller import EAR_RATE, Caller
from tests.e2e.phones import NUMBER, phone_in, press, set_status
from tests.e2e.processes import LiveKitServer, WorkerProcess
from tests.e2e.sounds import strength, tone

pytestmark = pytest.mark.e2e
WORKER_OPTIONS = ("--recording", "{folder}/recordings")
RINGING_FRAMES = 50
NOISE = 1e-3
"""What Opus makes of silence stays below."""


# contract: H3, H7
async def test_ringing_picked_up_digits_hangup(
    livekit: LiveKitServer, echo_worker: WorkerProcess, room_name: str
) -> None:
    async with phone_in(livekit.url, room_name) as phone:
        # The bridge answers only once there is a track: it is there while the phone still rings.
        await phone.until("the agent's track", lambda: phone.agent_track is not None)
        await phone.publish()
        await phone.until("some ringing", lambda: len(phone.heard) > RINGING_FRAMES)
        ringing = await phone.stats()
        assert ringing["frames"]["accepted"] == 0
        assert np.abs(phone.sound()).max() < NOISE

        await set_status(phone, "active")
        await phone.say(tone(700, 3))
        await phone.until("an answer", lambda: answered(phone))
        active = await phone.stats()
        assert [path.suffix for path in echo_worker.recordings_open()] == [".flac", ".jsonl"]
        assert active["frames"]["accepted"] > 20
        assert active["position"] == 12 + active["frames"]["stepped"] - 1

        await press(phone, "5")
        await phone.until("the digit", lambda: phone.of_type("dtmf"))
        assert phone.of_type("dtmf")[0]["digit"] == "5"
        with pytest.raises(rtc.RpcError):
            await phone.rpc("transfer", '{"to": "nowhere"}')

        await press(phone, "#")
        await phone.until("the line to go dead", lambda: not phone.room.isconnected())
        account = await echo_worker.ended(active["session"])
        assert account["reason"] == "hangup_key"
        assert echo_worker.ready()["used_slots"] == 0
        assert NUMBER not in echo_worker.text(), "a caller's number stands in the log"
    check_recording(echo_worker, account, phone.messages)


def answered(phone: Caller) -> bool:
    return strength(phone.sound()[-EAR_RATE:], 700, EAR_RATE) > 0.1


def check_recording(worker: WorkerProcess, account: Account, told: list[dict[str, Any]]) -> None:
    """A frame on both sides for each step, and the messages as the phone was told them."""
    path = worker.folder / "recordings" / account["session"]
    sound, rate = soundfile.read(path.with_suffix(".flac"))
    assert rate == EAR_RATE
    assert len(sound) == account["frames"]["stepped"] * FRAME_SAMPLES
    people, agent = sound.T
    assert max(strength(part, 700, rate) for part in np.array_split(people, 8)) > 0.1
    # The engine says what it hears, in the same frame and to the last bit.
    assert np.array_equal(people, agent)
    lines = path.with_suffix(".jsonl").read_text()
    assert [json.loads(line) for line in lines.splitlines()] == told
    assert NUMBER not in lines


# contract: H7
async def test_a_bridge_that_hangs_up_frees_the_slot_at_once(
    livekit: LiveKitServer, echo_worker: WorkerProcess, room_name: str
) -> None:
    async with phone_in(livekit.url, room_name, status="active") as phone:
        await phone.until("the agent", lambda: len(phone.heard) > 20)
        session = (await phone.stats())["session"]
        await set_status(phone, "hangup")
    assert (await echo_worker.ended(session))["reason"] == "participant_left"
