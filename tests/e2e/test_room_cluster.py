"""Two LiveKit nodes joined by Redis and two workers carry one load together."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.accounts import MOST_WAITING, check_chain, waiting
from tests.e2e.caller import EAR_RATE, Caller
from tests.e2e.processes import LiveKitServer, RedisServer, WorkerProcess
from tests.e2e.sounds import strength, tone

pytestmark = [pytest.mark.e2e, pytest.mark.full]
SLOTS = 2
REPORTED_SECONDS = 5
"""Twice the time between two reports of a worker's load, by which a node chooses among workers."""


@dataclass
class Cluster:
    nodes: list[LiveKitServer]
    workers: list[WorkerProcess]

    def caller(self, number: int) -> Caller:
        """A person in a room of their own, on one node or the other."""
        return Caller(self.nodes[number % 2].url, f"room-{uuid.uuid4().hex}", f"caller-{number}")

    async def start(self) -> None:
        for worker in self.workers:
            await asyncio.to_thread(worker.start)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    redis = RedisServer(tmp_path)
    redis.start()
    nodes = [LiveKitServer(tmp_path, f"node-{n}", redis=redis.address) for n in range(2)]
    for node in nodes:
        node.start()
    workers = [
        WorkerProcess(tmp_path, node.url, "--max-sessions", str(SLOTS), echo=True, name=f"w-{n}")
        for n, node in enumerate(nodes)
    ]
    yield Cluster(nodes, workers)
    for process in (*workers, *nodes, redis):
        process.kill()


# contract: A1, A2
async def test_two_nodes_and_two_workers_share_the_calls(cluster: Cluster) -> None:
    await cluster.start()
    people = [cluster.caller(number) for number in range(2 * SLOTS)]
    async with AsyncExitStack() as calls:
        for who in people:
            await calls.enter_async_context(who)
            await who.until_agent()
            await asyncio.sleep(REPORTED_SECONDS)
        assert [worker.ready()["used_slots"] for worker in cluster.workers] == [SLOTS, SLOTS]
        async with cluster.caller(2 * SLOTS) as one_too_many:
            await one_too_many.until("a refusal", lambda: one_too_many.of_type("state"))
        assert one_too_many.of_type("state")[0]["code"] == "resource_exhausted"
        sessions = await asyncio.gather(*(talk(who, n) for n, who in enumerate(people)))
    assert len(set(sessions)) == 2 * SLOTS
    for worker in cluster.workers:
        await worker.reach_idle()
        await worker.reach("the calls' ends", lambda w=worker: len(w.calls_ended()) == SLOTS)
        for account in worker.calls_ended():
            check_chain(account)


async def talk(who: Caller, number: int) -> str:
    """A tone of one's own comes back, and none of the others'; the session's id."""
    own, others = pitch(number), [pitch(n) for n in range(2 * SLOTS) if n != number]
    await who.say(tone(own, 5))
    await who.until("its echo", lambda: strength(who.sound()[-EAR_RATE:], own, EAR_RATE) > 0.1)
    second = who.sound()[-EAR_RATE:]
    assert all(strength(second, other, EAR_RATE) < 0.03 for other in others)
    account = await who.stats()
    assert 0 <= waiting(account) <= MOST_WAITING
    return str(account["session"])


def pitch(number: int) -> float:
    return 400.0 + 100 * number
