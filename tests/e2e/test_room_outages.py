"""Each part killed with -9 and started again: the next call works, and one log line says so."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

import pytest

from tests.e2e.caller import Caller
from tests.e2e.processes import LiveKitServer, RedisServer, WorkerProcess

pytestmark = pytest.mark.e2e


async def call_works(server: LiveKitServer, worker: WorkerProcess) -> str:
    """One whole call in a room of its own; the session's id."""
    async with Caller(server.url, f"room-{uuid.uuid4().hex}") as who:
        await who.until_agent()
        await who.until("the agent's track", lambda: len(who.heard) > 10)
        session = (await who.stats())["session"]
    await worker.reach("a free slot", lambda: worker.ready()["used_slots"] == 0)
    return str(session)


# contract: A3, J2
async def test_server_worker_and_redis_killed_one_after_the_other(tmp_path: Path) -> None:
    redis = RedisServer(tmp_path)
    redis.start()
    server = LiveKitServer(tmp_path, redis=redis.address)
    server.start()
    worker = WorkerProcess(tmp_path, server.url, "--max-sessions", "1", echo=True)
    try:
        await asyncio.to_thread(worker.start)
        await call_works(server, worker)

        lost = Caller(server.url, f"room-{uuid.uuid4().hex}")
        await lost.connect()
        await lost.until_agent()
        server.kill()
        await lost.leave()
        await asyncio.to_thread(server.start)
        await asyncio.to_thread(worker.await_registrations, 2)
        assert worker.text().count("lost the LiveKit server") == 1
        # The only slot is free again, whatever became of the call that was cut.
        await worker.reach("the lost call's slot", lambda: worker.ready()["used_slots"] == 0)
        await call_works(server, worker)

        worker.kill()
        await asyncio.to_thread(worker.start)
        await call_works(server, worker)

        redis.kill()
        await asyncio.to_thread(redis.start)
        await call_works(server, worker)
    finally:
        worker.kill()
        server.kill()
        redis.kill()
