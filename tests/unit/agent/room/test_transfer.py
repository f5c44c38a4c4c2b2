"""`personaplex.transfer` down to LiveKit's SIP service: the request, and what a refusal becomes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import cast

import pytest
from livekit import api, rtc
from livekit.agents import JobContext

from agent import job, rpc
from tests.e2e.processes import API_KEY, API_SECRET, free_port
from tests.fakes.sip_service import DONE, FAILED, Answer, SipService, sip_service

pytestmark = pytest.mark.unit
TO = "tel:+12025550199"
PHONE = rtc.ParticipantKind.PARTICIPANT_KIND_SIP
PERSON = rtc.ParticipantKind.PARTICIPANT_KIND_STANDARD


@asynccontextmanager
async def context(port: int, *kinds: int) -> AsyncIterator[JobContext]:
    """What is used of a job: a room with participants of these kinds, and the server's API."""
    others = [SimpleNamespace(identity=f"p{k}", kind=kind) for k, kind in enumerate(kinds)]
    room = SimpleNamespace(name="call-1", remote_participants={p.identity: p for p in others})
    async with api.LiveKitAPI(f"http://127.0.0.1:{port}", API_KEY, API_SECRET) as server:
        yield cast(JobContext, SimpleNamespace(room=room, api=server))


@pytest.fixture
async def service() -> AsyncIterator[SipService]:
    async with sip_service() as service:
        yield service


# contract: H7
@pytest.mark.parametrize("answer", [DONE, Answer()], ids=["done", "a server that does not say"])
async def test_the_one_telephone_is_sent_on(service: SipService, answer: Answer) -> None:
    service.answer = answer
    async with context(service.port, PERSON, PHONE) as ctx:
        await job._transfer(ctx, TO)
    [asked] = service.asked
    assert (asked.room_name, asked.participant_identity, asked.transfer_to) == ("call-1", "p1", TO)


# contract: H7
@pytest.mark.parametrize(
    ("answer", "why"),
    [("the trunk takes no REFER", "the trunk takes no REFER"), (FAILED, "the transfer failed")],
    ids=["refused", "failed"],
)
async def test_what_the_bridge_does_not_do_is_an_error(
    service: SipService, answer: Answer | str, why: str
) -> None:
    service.answer = answer
    async with context(service.port, PHONE) as ctx:
        assert await refusal(ctx) == (rpc.REFUSED, why, "internal_error")
    assert len(service.asked) == 1


async def test_a_server_that_is_away_is_an_error() -> None:
    async with context(free_port(), PHONE) as ctx:
        why = "the LiveKit server does not answer"
        assert await refusal(ctx) == (rpc.REFUSED, why, "internal_error")


@pytest.mark.parametrize("kinds", [(PERSON,), (PHONE, PHONE)], ids=["none", "two"])
async def test_without_one_telephone_nobody_is_asked(
    service: SipService, kinds: tuple[int, ...]
) -> None:
    async with context(service.port, *kinds) as ctx:
        code, _, data = await refusal(ctx)
    assert (code, data) == (rpc.REFUSED, "bad_event")
    assert not service.asked


async def refusal(ctx: JobContext) -> tuple[int, str, str | None]:
    with pytest.raises(rtc.RpcError) as refused:
        await job._transfer(ctx, TO)
    return refused.value.code, refused.value.message, refused.value.data
