"""Engines and workers for end-to-end tests, each started once for the tests that share it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.processes import LiveKitServer, WorkerProcess

WorkerFactory = Callable[..., Awaitable[WorkerProcess]]


@pytest.fixture(scope="module")
def echo_process(
    request: pytest.FixtureRequest,
    livekit: LiveKitServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[WorkerProcess]:
    """The worker around the echo engine; it records what each call was given into its folder.

    A module's `WORKER_OPTIONS` are added to its command, with `{folder}` filled in.
    """
    folder = tmp_path_factory.mktemp("echo")
    asked = getattr(request.module, "WORKER_OPTIONS", ())
    # A test that failed may have left somebody in a room.
    options = ["--drain-time", "1", *(option.format(folder=folder) for option in asked)]
    worker = WorkerProcess(folder, livekit.url, "--record", str(folder), *options, echo=True)
    worker.start()
    yield worker
    worker.stop()


@pytest.fixture
def echo_worker(echo_process: WorkerProcess) -> WorkerProcess:
    """It with every slot free: the calls of the test before have ended."""
    echo_process.await_idle()
    return echo_process


@pytest.fixture
def start_worker(livekit: LiveKitServer, tmp_path: Path) -> Iterator[WorkerFactory]:
    """Makes workers against this module's server that end with the test."""
    workers: list[WorkerProcess] = []

    async def make(*options: str, echo: bool = True) -> WorkerProcess:
        name = f"worker-{len(workers)}"
        worker = WorkerProcess(tmp_path, livekit.url, *options, echo=echo, name=name)
        workers.append(worker)
        # Off the loop: people who are already in a room go on talking meanwhile.
        await asyncio.to_thread(worker.start)
        return worker

    yield make
    for worker in workers:
        worker.kill()


@pytest.fixture
def room_name() -> str:
    return f"room-{uuid.uuid4().hex[:12]}"
