"""Two LiveKit nodes joined by Redis and two workers serve calls side by side."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

import pytest

from tests.e2e.caller import EAR_RATE, Caller
from tests.e2e.processes import LiveKitServer, RedisServer, WorkerProcess
from tests.e2e.sounds import strength, tone

pytestmark = [pytest.mark.e2e, pytest.mark.full]
SLOTS = 2


async def talk(who: Caller, hz: float) -> str:
    """One call: its tone comes back; the session's id."""
    async with who:
        await who.until_agent()
        await who.say(tone(hz, 5))
        await who.until("its echo", lambda: strength(who.sound()[-EAR_RATE:], hz, EAR_RATE) > 0.1)
        account = await who.stats()
        frames = account["frames"]
        assert frames["accepted"] - frames["dropped_overflow"] - frames["stepped"] <= 3
        await asyncio.sleep(1)
    return str(account["session"])


# contract: A1, A2
async def test_two_nodes_and_two_workers_share_the_calls(tmp_path: Path) -> None:
    redis = RedisServer(tmp_path)
    redis.start()
    nodes = [LiveKitServer(tmp_path, f"node-{n}", redis=redis.address) for n in range(2)]
    for node in nodes:
        node.start()
    workers = [
        WorkerProcess(tmp_path, node.url, "--max-sessions", str(SLOTS), echo=True, name=f"w-{n}")
        for n, node in enumerate(nodes)
    ]
    try:
        for worker in workers:
            await asyncio.to_thread(worker.start)
        people = [
            Caller(nodes[n % 2].url, f"room-{uuid.uuid4().hex}", identity=f"caller-{n}")
            for n in range(2 * SLOTS)
        ]
        sessions = []
        for who in people:
            sessions.append(asyncio.create_task(talk(who, 400 + 100 * len(sessions))))
            # Loads are reported every 2.5 s; a burst would meet the loads of before it.
            await asyncio.sleep(3)
        assert len(set(await asyncio.gather(*sessions))) == 2 * SLOTS
        for worker in workers:
            await worker.reach("free slots", lambda w=worker: w.ready()["free_slots"] == SLOTS)
        shares = [len(worker.calls_ended()) for worker in workers]
        print("calls of each worker:", shares)
        assert sum(shares) == 2 * SLOTS and min(shares) > 0
    finally:
        for process in (*workers, *nodes, redis):
            process.kill()
