"""A job that is refused: the room is told why, and nothing of it outlives the job."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from livekit.agents import JobContext

from agent import job
from agent.errors import SessionError
from tests.fakes.clock import run
from tests.fakes.waiting import until

pytestmark = pytest.mark.unit


class Asked:
    """What is used of a job's context: joining, and the messages that went out."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        self.room = SimpleNamespace(local_participant=self)

    async def connect(self, **_: object) -> None: ...

    async def publish_data(self, payload: str, **_: object) -> None:
        self.told.append({"payload": payload})


async def refused(asked: Asked) -> None:
    refusal = SessionError("resource_exhausted", "2 of 2 sessions are in use")
    await job._refuse(cast(JobContext, asked), refusal)


def test_the_room_reads_why() -> None:
    asked = Asked()
    run(refused(asked))
    (said,) = asked.told
    assert "resource_exhausted" in said["payload"]


def test_a_cancelled_refusal_leaves_no_task() -> None:
    async def scene() -> None:
        task = asyncio.create_task(refused(asked))
        await until(lambda: bool(asked.told))
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asked = Asked()
    run(scene())
