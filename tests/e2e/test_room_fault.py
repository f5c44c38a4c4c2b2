"""A device that fails for good while a call goes on: the worker leaves, and a new one serves."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agent.serve import FAULTED
from tests.e2e.caller import Caller
from tests.e2e.conftest import WorkerFactory
from tests.e2e.processes import LiveKitServer, WorkerProcess

pytestmark = pytest.mark.e2e
GOOD_STEPS = 60
"""Those of the warm-up and some seconds of a call."""


# contract: I5, J3
async def test_a_device_fault_ends_the_process_and_a_supervisors_restart_is_enough(
    livekit: LiveKitServer,
    start_worker: WorkerFactory,
    tiny_checkpoint: Path,
    tmp_path: Path,
    room_name: str,
) -> None:
    options = ("--model", str(tiny_checkpoint), "--max-sessions", "1")
    module = ("tests.fakes.troubled_worker", f"--good-steps={GOOD_STEPS}")
    worker = WorkerProcess(tmp_path, livekit.url, *options, module=module, name="troubled")
    await asyncio.to_thread(worker.start)
    try:
        async with Caller(livekit.url, f"{room_name}-1") as who:
            await who.until_agent()
            session = (await who.stats())["session"]
            account = await worker.ended(session)
            assert account["reason"] == "engine_fault"
            assert account["frames"]["stepped"] > 0
            assert await asyncio.to_thread(worker.wait) == FAULTED
            (last,) = [one for one in who.of_type("state") if one["state"] == "closed"]
            assert last["code"] == "engine_fault"
    finally:
        worker.kill()
    assert worker.text().count("the device failed") == 1
    successor = await start_worker(*options, echo=False)
    async with Caller(livekit.url, f"{room_name}-2") as who:
        await who.until_agent()
        assert (await who.stats())["session"] != session
    await successor.reach_idle()
