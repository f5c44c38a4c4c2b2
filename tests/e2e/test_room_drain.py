"""Deploys that cut nobody off: SIGTERM, the second signal, the end of the drain time."""

from __future__ import annotations

import asyncio
import signal

import pytest

from tests.e2e.accounts import MOST_WAITING, check_chain, waiting
from tests.e2e.caller import Caller
from tests.e2e.conftest import WorkerFactory
from tests.e2e.processes import LiveKitServer
from tests.e2e.sounds import tone

pytestmark = pytest.mark.e2e


# contract: J3
async def test_drain_finishes_calls_and_the_next_goes_to_the_other_worker(
    livekit: LiveKitServer, start_worker: WorkerFactory, room_name: str
) -> None:
    first = await start_worker("--max-sessions", "2")
    callers = [Caller(livekit.url, f"{room_name}-{number}") for number in range(2)]
    for who in callers:
        await who.connect()
        await who.until_agent()
    second = await start_worker("--max-sessions", "2")
    playing = [asyncio.create_task(who.say(tone(500, 8))) for who in callers]
    before = [await who.stats() for who in callers]
    first.signal(signal.SIGTERM)
    await first.reach("readiness to end", lambda: first.ready()["status"] == 503)
    async with Caller(livekit.url, f"{room_name}-new") as new:
        await new.until_agent()
        assert second.ready()["used_slots"] == 1
        await asyncio.gather(*playing)
        after = [await who.stats() for who in callers]
    for was, now in zip(before, after, strict=True):
        assert now["session"] == was["session"]
        assert 0 <= waiting(now) <= MOST_WAITING
        assert now["position"] - was["position"] == (
            now["frames"]["stepped"] - was["frames"]["stepped"]
        )
        assert now["frames"]["stepped"] > was["frames"]["stepped"] + 50
    for who in callers:
        await who.leave()
    assert await asyncio.to_thread(first.wait) == 0
    accounts = first.calls_ended()
    assert {account["session"] for account in accounts} == {now["session"] for now in after}
    for account in accounts:
        check_chain(account)


# contract: J3
async def test_a_second_signal_stops_at_once(
    livekit: LiveKitServer, start_worker: WorkerFactory, room_name: str
) -> None:
    worker = await start_worker()
    async with Caller(livekit.url, room_name) as who:
        await who.until_agent()
        worker.signal(signal.SIGTERM)
        await worker.reach("drain", lambda: "draining: 1" in worker.text())
        assert worker.running
        worker.signal(signal.SIGTERM)
        assert await asyncio.to_thread(worker.wait) == 1
        await who.until("the agent to be gone", lambda: who.agent is None)


# contract: H7, J3
async def test_calls_end_with_a_reason_at_their_longest_and_at_the_end_of_the_drain_time(
    livekit: LiveKitServer, start_worker: WorkerFactory, room_name: str
) -> None:
    worker = await start_worker("--drain-time", "1", "--max-call-duration", "8")
    async with Caller(livekit.url, room_name) as who:
        await who.until("the end", lambda: not who.room.isconnected())
        assert reason_of(who) == "max_call_duration"
    async with Caller(livekit.url, f"{room_name}-2") as who:
        await who.until_agent()
        worker.signal(signal.SIGTERM)
        await who.until("the end", lambda: not who.room.isconnected())
        assert reason_of(who) == "drain"
    assert await asyncio.to_thread(worker.wait) == 0


def reason_of(who: Caller) -> str:
    closed = who.of_type("state")[-1]
    assert closed["state"] == "closed"
    return str(closed["reason"])
