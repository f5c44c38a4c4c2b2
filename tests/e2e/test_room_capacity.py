"""Slots in rooms: calls side by side, and the one too many."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.e2e.caller import EAR_RATE, Caller
from tests.e2e.processes import LiveKitServer, WorkerProcess, post
from tests.e2e.sounds import strength, tone

pytestmark = pytest.mark.e2e


# contract: A1, A2
async def test_two_rooms_are_independent_and_the_third_reads_why_not(
    livekit: LiveKitServer, echo_worker: WorkerProcess, room_name: str
) -> None:
    url = livekit.url
    async with Caller(url, f"{room_name}-1") as one, Caller(url, f"{room_name}-2") as two:
        await asyncio.gather(one.until_agent(), two.until_agent())
        async with Caller(url, f"{room_name}-3") as three:
            await three.until("a refusal", lambda: three.of_type("state"))
            refusal = three.of_type("state")[0]
            status, body = post(f"{echo_worker.base}/api/connection-details", {})
        assert (refusal["state"], refusal["code"]) == ("refused", "resource_exhausted")
        assert (status, json.loads(body)["error"]["code"]) == (503, "resource_exhausted")
        await asyncio.gather(one.say(tone(500, 3)), two.say(tone(800, 3)))
        for who, own, others in ((one, 500, 800), (two, 800, 500)):
            await who.until("its echo", lambda who=who: len(who.heard) > 200)
            sound = who.sound()[-3 * EAR_RATE :]
            assert strength(sound, own, EAR_RATE) > 20 * strength(sound, others, EAR_RATE)
        assert not echo_worker.recordings_open(), "a call is recorded that nobody asked to record"
        sessions = {(await who.stats())["session"] for who in (one, two)}
        assert len(sessions) == 2
    await echo_worker.reach("both slots", lambda: echo_worker.ready()["free_slots"] == 2)
