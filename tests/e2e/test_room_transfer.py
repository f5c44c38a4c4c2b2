"""A telephone that is sent on to another number, by a worker whose SIP service is a fake."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from livekit import rtc

from agent import rpc
from tests.e2e.phones import NUMBER, phone_in, set_status
from tests.e2e.processes import LiveKitServer, WorkerProcess
from tests.fakes.sip_service import DONE, SipService, beside, sip_service

pytestmark = pytest.mark.e2e
TO = "tel:+12025550199"
ENOUGH = 20
"""Pieces of 20 ms that show that the agent is heard."""


@pytest.fixture
async def service() -> AsyncIterator[SipService]:
    async with sip_service() as service:
        yield service


@pytest.fixture
async def worker(
    livekit: LiveKitServer, service: SipService, tmp_path: Path
) -> AsyncIterator[WorkerProcess]:
    """A worker that meets the service at its server's address."""
    async with beside(livekit.port, service) as port:
        url = f"ws://127.0.0.1:{port}"
        worker = WorkerProcess(tmp_path, url, "--drain-time", "1", echo=True)
        await asyncio.to_thread(worker.start)
        yield worker
        await asyncio.to_thread(worker.stop)


# contract: H7
async def test_a_call_goes_on_when_a_transfer_is_refused_and_ends_when_it_is_done(
    livekit: LiveKitServer, service: SipService, worker: WorkerProcess, room_name: str
) -> None:
    phone = phone_in(livekit.url, room_name, status="active")
    await phone.connect()
    await phone.until("the agent", lambda: len(phone.heard) > ENOUGH)
    before = await phone.stats()

    service.answer = f"{NUMBER} cannot be transferred"
    with pytest.raises(rtc.RpcError) as refused:
        await phone.rpc("transfer", f'{{"to": "{TO}"}}')
    assert (refused.value.code, refused.value.data) == (rpc.REFUSED, "internal_error")
    assert refused.value.message == service.answer
    heard = len(phone.heard)
    await phone.until("more of the agent", lambda: len(phone.heard) > heard + ENOUGH)
    after = await phone.stats()
    assert (after["session"], after["epoch"]) == (before["session"], before["epoch"])
    assert after["frames"]["stepped"] > before["frames"]["stepped"]

    service.answer = DONE
    assert await phone.rpc("transfer", f'{{"to": "{TO}"}}') == "{}"
    asked = [(one.room_name, one.participant_identity, one.transfer_to) for one in service.asked]
    assert asked == [(room_name, phone.identity, TO)] * 2
    # The bridge takes its participant out of the room once the other number has answered.
    await set_status(phone, "hangup")
    await phone.leave()
    assert (await worker.ended(after["session"]))["reason"] == "participant_left"
    assert worker.ready()["used_slots"] == 0
    assert NUMBER not in worker.text(), "a caller's number stands in the log"
