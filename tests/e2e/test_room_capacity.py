"""Slots: calls side by side, in rooms and elsewhere, and the one too many."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest
from aiohttp import ClientSession, WSCloseCode

from tests.e2e.caller import EAR_RATE, Caller
from tests.e2e.processes import LiveKitServer, WorkerProcess, post
from tests.e2e.sounds import strength, tone
from tests.fakes.server import Client
from tests.unit.agent.realtime.offers import good_offer

pytestmark = pytest.mark.e2e
FULL = "resource_exhausted"
WEBSOCKET = "/v1/realtime?model=m"


# contract: A1, A2
async def test_two_rooms_are_independent_and_the_third_reads_why_not(
    livekit: LiveKitServer, echo_worker: WorkerProcess, room_name: str
) -> None:
    url = livekit.url
    async with Caller(url, f"{room_name}-1") as one, Caller(url, f"{room_name}-2") as two:
        await asyncio.gather(one.until_agent(), two.until_agent())
        async with Caller(url, f"{room_name}-3") as three:
            await check_reads_why_not(three)
            status, body = post(f"{echo_worker.base}/api/connection-details", {})
        assert (status, json.loads(body)["error"]["code"]) == (503, FULL)
        await asyncio.gather(one.say(tone(500, 3)), two.say(tone(800, 3)))
        for who, own, others in ((one, 500, 800), (two, 800, 500)):
            await who.until("its echo", lambda who=who: len(who.heard) > 200)
            sound = who.sound()[-3 * EAR_RATE :]
            assert strength(sound, own, EAR_RATE) > 20 * strength(sound, others, EAR_RATE)
        assert not echo_worker.recordings_open(), "a call is recorded that nobody asked to record"
        sessions = {(await who.stats())["session"] for who in (one, two)}
        assert len(sessions) == 2
    await echo_worker.reach_idle()


async def check_reads_why_not(who: Caller) -> None:
    await who.until("a refusal", lambda: who.of_type("state"))
    refusal = who.of_type("state")[0]
    assert (refusal["state"], refusal["code"]) == ("refused", FULL)


# contract: A1, A2
async def test_rooms_websockets_and_webrtc_calls_fill_the_same_slots(
    livekit: LiveKitServer, echo_worker: WorkerProcess, room_name: str
) -> None:
    def used(slots: int) -> Callable[[], bool]:
        return lambda: echo_worker.ready()["used_slots"] == slots

    async with Caller(livekit.url, room_name) as one, ClientSession(echo_worker.base) as http:
        await one.until_agent()
        async with http.ws_connect(WEBSOCKET) as socket:
            await Client(socket).until("session.created")
            assert used(2)()
            async with Caller(livekit.url, f"{room_name}-2") as two:
                await check_reads_why_not(two)
            await check_websocket_refused(http)
            status, body, _ = await call(http)
            assert (status, json.loads(body)["error"]["code"]) == (503, FULL)
        await echo_worker.reach("the websocket's slot", used(1))
        status, _, place = await call(http)
        assert status == 201 and used(2)()
        await check_websocket_refused(http)
        async with http.delete(place) as hung_up:
            assert hung_up.status == 204
        await echo_worker.reach("the call's slot", used(1))
    await echo_worker.reach_idle()


async def check_websocket_refused(http: ClientSession) -> None:
    async with http.ws_connect(WEBSOCKET) as socket:
        seen = await Client(socket).rest()
        error = seen[0]["error"]
        assert (error["code"], error["current"], error["maximum"]) == (FULL, 2, 2)
        assert socket.close_code == WSCloseCode.TRY_AGAIN_LATER


async def call(http: ClientSession) -> tuple[int, str, str]:
    """Status, body and place of a WebRTC call; its peer does not come."""
    headers = {"Content-Type": "application/sdp"}
    offer = await good_offer("audio")
    async with http.post("/v1/realtime/calls", data=offer, headers=headers) as answer:
        return answer.status, await answer.text(), answer.headers.get("Location", "")
