"""Each part killed with -9 and started again: the next call works, and one log line says so."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.caller import Caller
from tests.e2e.processes import LiveKitServer, RedisServer, WorkerProcess

pytestmark = pytest.mark.e2e
REGISTERED, LOST = "registered with", "lost the LiveKit server"
HELPLESS, HELPED = "cannot place calls", "can place calls again"
COMPLAINT = re.compile(r"^\S+ \S+ (?:WARNING|ERROR|CRITICAL) (.*)$", re.MULTILINE)
OF_LIBRARIES = (
    "livekit: livekit::rtc_engine",
    "livekit: livekit_signaling",
    "livekit: livekit_ffi::server",
    "livekit.agents: no warmed process available for job",
    "livekit.agents: event loop blocked",
    "livekit.agents: error while deleting room",
)
"""How lines begin in which LiveKit's own libraries complain of a connection or a busy machine."""
MOST_BUSY, MOST_AN_OUTAGE = 5, 20
"""Lines of theirs: 0 were seen before any outage, 6 to 10 after one, 12 after two. Each further
attempt to connect is two more; what is told for every frame or second exceeds this."""


@dataclass
class Plant:
    """A server and a worker with one slot."""

    server: LiveKitServer
    worker: WorkerProcess

    def said(self) -> dict[str, int]:
        """How often the worker has said each line, its lives together."""
        text = self.worker.text()
        return {line: text.count(line) for line in (REGISTERED, LOST, HELPLESS, HELPED)}

    def check_told(self, *lines: str) -> None:
        """Of all complaints so far these are the worker's own, one line each, in order."""
        text = self.worker.text()
        complaints = COMPLAINT.findall(text)
        own = [line for line in complaints if not line.startswith(OF_LIBRARIES)]
        of_libraries = len(complaints) - len(own)
        print(f"{of_libraries} complaints of libraries after {len(lines)} outages")
        assert of_libraries <= MOST_BUSY + MOST_AN_OUTAGE * len(lines), text[-3000:]
        assert len(own) == len(lines), own
        for line, complaint in zip(lines, own, strict=True):
            assert line in complaint and complaint.startswith("agent.outages: "), own
        assert "Traceback" not in text, text[-3000:]

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
        await self.worker.reach_idle()


@contextmanager
def planted(folder: Path, redis: str = "") -> Iterator[Plant]:
    server = LiveKitServer(folder, redis=redis)
    worker = WorkerProcess(folder, server.url, "--max-sessions", "1", echo=True)
    try:
        server.start()
        worker.start()
        yield Plant(server, worker)
    finally:
        worker.kill()
        server.kill()


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    process = RedisServer(tmp_path)
    try:
        process.start()
        yield process
    finally:
        process.kill()


@pytest.fixture
def plant(tmp_path: Path, redis: RedisServer) -> Iterator[Plant]:
    with planted(tmp_path, redis.address) as running:
        yield running


@pytest.fixture
def single_node(tmp_path: Path) -> Iterator[Plant]:
    """A server that keeps its rooms to itself, and forgets them with its life."""
    with planted(tmp_path) as running:
        yield running


# contract: A3, J2
async def test_server_worker_and_redis_killed_one_after_the_other(
    plant: Plant, redis: RedisServer
) -> None:
    await plant.call_works()
    assert plant.said() == {REGISTERED: 1, LOST: 0, HELPLESS: 0, HELPED: 0}
    plant.check_told()

    await lose_the_server(plant)
    assert plant.said() == {REGISTERED: 2, LOST: 1, HELPLESS: 0, HELPED: 0}
    plant.check_told(LOST)

    await lose_the_worker(plant)
    assert plant.said() == {REGISTERED: 3, LOST: 1, HELPLESS: 0, HELPED: 0}
    plant.check_told(LOST)

    await lose_redis(plant, redis)
    assert plant.said() == {REGISTERED: 3, LOST: 1, HELPLESS: 1, HELPED: 1}
    plant.check_told(LOST, HELPLESS)


# contract: A3, J2
async def test_a_server_without_redis_killed(single_node: Plant) -> None:
    await lose_the_server(single_node)
    assert single_node.said() == {REGISTERED: 2, LOST: 1, HELPLESS: 0, HELPED: 0}
    single_node.check_told(LOST)


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


async def lose_the_worker(plant: Plant) -> None:
    """In the middle of a call; the one that is started in its place has every slot."""
    lost = plant.caller()
    await lost.connect()
    await lost.until_agent()
    assert plant.worker.ready()["used_slots"] == 1
    plant.worker.kill()
    await asyncio.to_thread(plant.worker.start)
    await lost.leave()
    await plant.slot_is_free()
    await plant.call_works()


async def lose_redis(plant: Plant, redis: RedisServer) -> None:
    """In the middle of a call, whose signalling goes through it; no slot is lost."""
    lost = plant.caller()
    await lost.connect()
    await lost.until_agent()
    redis.kill()
    await plant.until_said(HELPLESS, 1)
    await asyncio.to_thread(redis.start)
    await plant.until_said(HELPED, 1)
    await lost.leave()
    await plant.slot_is_free()
    await plant.call_works()
