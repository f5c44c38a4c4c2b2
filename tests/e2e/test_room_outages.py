"""Each part killed with -9 and started again: the next call works, and one log line says so."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.caller import Caller
from tests.e2e.processes import LiveKitServer, RedisServer, WorkerProcess

pytestmark = pytest.mark.e2e
REGISTERED, LOST = "registered with", "lost the LiveKit server"
HELPLESS, HELPED = "cannot place calls", "can place calls again"


@dataclass
class Plant:
    """Redis, a server that needs it, and a worker with one slot."""

    redis: RedisServer
    server: LiveKitServer
    worker: WorkerProcess

    def said(self) -> dict[str, int]:
        """How often the worker has said each line, its lives together."""
        text = self.worker.text()
        return {line: text.count(line) for line in (REGISTERED, LOST, HELPLESS, HELPED)}

    async def until_said(self, line: str, times: int) -> None:
        await self.worker.reach(f"'{line}'", lambda: self.said()[line] >= times)

    def caller(self) -> Caller:
        return Caller(self.server.url, f"room-{uuid.uuid4().hex}")

    async def call_works(self) -> None:
        """One whole call in a room of its own, and its slot back."""
        async with self.caller() as who:
            await who.until_agent()
            await who.until("the agent's track", lambda: len(who.heard) > 10)
        await self.slot_is_free()

    async def slot_is_free(self) -> None:
        await self.worker.reach("a free slot", lambda: self.worker.ready()["used_slots"] == 0)


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[Plant]:
    redis = RedisServer(tmp_path)
    redis.start()
    server = LiveKitServer(tmp_path, redis=redis.address)
    server.start()
    worker = WorkerProcess(tmp_path, server.url, "--max-sessions", "1", echo=True)
    worker.start()
    yield Plant(redis, server, worker)
    for process in (worker, server, redis):
        process.kill()


# contract: A3, J2
async def test_server_worker_and_redis_killed_one_after_the_other(plant: Plant) -> None:
    await plant.call_works()
    assert plant.said() == {REGISTERED: 1, LOST: 0, HELPLESS: 0, HELPED: 0}

    await lose_the_server(plant)
    assert plant.said() == {REGISTERED: 2, LOST: 1, HELPLESS: 0, HELPED: 0}

    plant.worker.kill()
    await asyncio.to_thread(plant.worker.start)
    await plant.call_works()
    assert plant.said() == {REGISTERED: 3, LOST: 1, HELPLESS: 0, HELPED: 0}

    await lose_redis(plant)
    assert plant.said() == {REGISTERED: 3, LOST: 1, HELPLESS: 1, HELPED: 1}
    print("warnings of the worker:", *warnings(plant.worker), sep="\n")


async def lose_the_server(plant: Plant) -> None:
    """In the middle of a call; the only slot is free again, whatever became of that."""
    lost = plant.caller()
    await lost.connect()
    await lost.until_agent()
    plant.server.kill()
    await lost.leave()
    await plant.until_said(LOST, 1)
    await asyncio.to_thread(plant.server.start)
    await asyncio.to_thread(plant.worker.await_registrations, 2)
    await plant.slot_is_free()
    await plant.call_works()


async def lose_redis(plant: Plant) -> None:
    """In the middle of a call, whose signalling goes through it; no slot is lost."""
    lost = plant.caller()
    await lost.connect()
    await lost.until_agent()
    plant.redis.kill()
    await plant.until_said(HELPLESS, 1)
    await asyncio.to_thread(plant.redis.start)
    await plant.until_said(HELPED, 1)
    await lost.leave()
    await plant.slot_is_free()
    await plant.call_works()


def warnings(worker: WorkerProcess) -> list[str]:
    return [line for line in worker.text().splitlines() if " WARNING " in line or " ERROR " in line]
