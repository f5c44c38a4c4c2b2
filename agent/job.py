"""One dispatched job: from its metadata to a call, or to a refusal that the room can read.

It translates between LiveKit's job and `RoomCall`; the call itself is not its affair.
"""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from livekit import api, rtc
from livekit.agents import AutoSubscribe, JobContext

from agent import people, rpc
from agent.dispatch import Defaults, Dispatch, parse_dispatch
from agent.errors import SessionError
from agent.manager import SessionManager
from agent.policy import ROOM
from agent.room import RoomCall, RoomRules
from agent.tally import RoomTally
from agent.transcript import Transcript

log = logging.getLogger(__name__)
ALREADY_SERVED = "already_served"
"""A server that was restarted may dispatch a second agent to a room whose call goes on."""
READ_SECONDS = 3.0
"""How long a refused room keeps its agent, so that the reason is read."""
LAST_WORDS_SECONDS = 0.3
"""Between the last message and the deletion of the room that carries it."""


@dataclass(frozen=True, slots=True)
class JobRules:
    """What the operator chose for calls in rooms."""

    defaults: Defaults
    resume_grace: float
    max_call_duration: float
    recording: Path | None = None


async def run_job(
    ctx: JobContext, manager: SessionManager, rules: JobRules, tally: RoomTally
) -> None:
    """The job's whole life. Raises nothing but cancellation."""
    reason = "refused"
    try:
        dispatch = parse_dispatch(ctx.job.metadata, rules.defaults)
        reason = await _call(ctx, manager, dispatch, rules, tally)
    except SessionError as refusal:
        log.warning("refused a room: %s: %s", refusal.code, refusal.message)
        await _refuse(ctx, refusal)
    except rtc.ConnectError as error:
        log.warning("could not join a room: %s", error.message)
    finally:
        ctx.shutdown(reason)


async def _call(
    ctx: JobContext,
    manager: SessionManager,
    dispatch: Dispatch,
    rules: JobRules,
    tally: RoomTally,
) -> str:
    call = RoomCall(
        ctx.room,
        RoomRules(dispatch.heard, rules.resume_grace, rules.max_call_duration, rules.recording),
        lambda sink: manager.open(ROOM, sink, dispatch.spec),
    )

    async def connect() -> None:
        await ctx.connect(auto_subscribe=AutoSubscribe.AUDIO_ONLY)
        if any(people.is_agent(other, ctx.job.agent_name) for other in _others(ctx)):
            call.close(ALREADY_SERVED)
        offering.enter_context(rpc.offered(ctx.room, call, lambda to: _transfer(ctx, to)))

    with tally.counting(call), ExitStack() as offering:
        reason = await call.run(connect)
    log.info("call ended: %s %s", reason, json.dumps(call.stats()))
    if ctx.room.isconnected() and reason != ALREADY_SERVED:
        await _empty(ctx)
    return reason


def _others(ctx: JobContext) -> list[rtc.RemoteParticipant]:
    return list(ctx.room.remote_participants.values())


async def _refuse(ctx: JobContext, refusal: SessionError) -> None:
    """Join only to say why nobody will answer."""
    try:
        await ctx.connect(auto_subscribe=AutoSubscribe.SUBSCRIBE_NONE)
    except rtc.ConnectError as error:
        log.warning("could not join a room to refuse it: %s", error.message)
        return
    note = Transcript(ctx.room.local_participant, lambda: "")
    note.state(0, "refused", code=refusal.code, message=refusal.message)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(note.run())
        await asyncio.sleep(READ_SECONDS)
        note.finish()


async def _empty(ctx: JobContext) -> None:
    """Leave nobody alone in a room: hang up telephones, delete a room with one person or none."""
    await asyncio.sleep(LAST_WORDS_SECONDS)
    persons = [p for p in _others(ctx) if people.is_person(p)]
    if len(persons) <= 1:
        await ctx.delete_room()
        return
    for phone in filter(people.is_phone, persons):
        await _hang_up(ctx, phone)


async def _hang_up(ctx: JobContext, phone: rtc.RemoteParticipant) -> None:
    request = api.RoomParticipantIdentity(room=ctx.room.name, identity=phone.identity)
    try:
        await ctx.api.room.remove_participant(request)
    except api.TwirpError as error:
        if error.code != api.TwirpErrorCode.NOT_FOUND:
            # The message may hold the identity, and with it a caller's number.
            log.warning("a telephone was not hung up: %s", error.code)
    except (aiohttp.ClientError, TimeoutError) as error:
        log.warning("a telephone was not hung up: %s", error)


async def _transfer(ctx: JobContext, to: str) -> None:
    """SIP REFER for the one telephone in the room. Raises `rtc.RpcError`.

    The context's own method would log what the server says, and with it a caller's number.
    """
    phones = [p for p in _others(ctx) if people.is_phone(p)]
    if len(phones) != 1:
        raise rtc.RpcError(rpc.REFUSED, f"there are {len(phones)} telephones here", "bad_event")
    request = api.TransferSIPParticipantRequest(
        room_name=ctx.room.name, participant_identity=phones[0].identity, transfer_to=to
    )
    try:
        answer = await ctx.api.sip.transfer_sip_participant(request)
    except api.TwirpError as error:
        raise rtc.RpcError(rpc.REFUSED, error.message, "internal_error") from error
    except (aiohttp.ClientError, TimeoutError) as error:
        why = "the LiveKit server does not answer"
        raise rtc.RpcError(rpc.REFUSED, why, "internal_error") from error
    if answer.status == api.SIPTransferStatus.STS_TRANSFER_FAILED:
        raise rtc.RpcError(rpc.REFUSED, "the transfer failed", "internal_error")
