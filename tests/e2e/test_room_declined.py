"""A worker without a free slot declines a room, and LiveKit asks another worker."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial

import pytest

from tests.e2e.caller import Caller
from tests.e2e.conftest import WorkerFactory
from tests.e2e.processes import LiveKitServer, WorkerProcess

pytestmark = pytest.mark.e2e
TURNS = 20
"""In every other turn or so LiveKit asks the same worker for both rooms first."""
DECLINED = "no slot is free, another worker may take the room"


def used(worker: WorkerProcess) -> int:
    return int(worker.ready()["used_slots"])


def is_empty(worker: WorkerProcess) -> bool:
    return used(worker) == 0


# contract: A1, A2
async def test_a_room_that_a_full_worker_declines_is_served_by_another(
    livekit: LiveKitServer, start_worker: WorkerFactory, room_name: str
) -> None:
    workers = await asyncio.gather(*(start_worker("--max-sessions", "1") for _ in range(2)))
    for turn in range(TURNS):
        callers = [Caller(livekit.url, f"{room_name}-{turn}-{number}") for number in range(2)]
        async with AsyncExitStack() as rooms:
            await asyncio.gather(*map(rooms.enter_async_context, callers))
            await asyncio.gather(*(who.until_agent() for who in callers))
            assert [used(worker) for worker in workers] == [1, 1]
        for worker in workers:
            await worker.reach("its slot", partial(is_empty, worker))
        declined = [worker.text().count(DECLINED) for worker in workers]
        if any(declined):
            break
    assert sorted(declined) == [0, 1]
