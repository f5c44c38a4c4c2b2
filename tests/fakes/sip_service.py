"""LiveKit's SIP service at its HTTP interface, as far as transfers go; no bridge is behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from livekit import api

Answer = api.TransferSIPParticipantResponse
Request = api.TransferSIPParticipantRequest
SERVICE = "/twirp/livekit.SIP/"
DONE = Answer(status=api.SIPTransferStatus.STS_TRANSFER_SUCCESSFUL)
FAILED = Answer(status=api.SIPTransferStatus.STS_TRANSFER_FAILED)
REFUSED_STATUS = 412
PIECE = 65_536


@dataclass
class SipService:
    """What it was asked, and what it answers to that: a message, or a refusal in words."""

    port: int = 0
    answer: Answer | str = field(default_factory=lambda: DONE)
    asked: list[Request] = field(default_factory=list)

    async def transfer(self, request: web.Request) -> web.Response:
        self.asked.append(Request.FromString(await request.read()))
        if isinstance(self.answer, str):
            body = {"code": "failed_precondition", "msg": self.answer}
            response = web.json_response(body, status=REFUSED_STATUS)
        else:
            response = web.Response(body=self.answer.SerializeToString())
        response.force_close()  # the next request may be for another service, see `beside`
        return response


@asynccontextmanager
async def sip_service() -> AsyncIterator[SipService]:
    """Serve it on a free port of loopback."""
    service = SipService()
    app = web.Application()
    app.router.add_post(f"{SERVICE}TransferSIPParticipant", service.transfer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        service.port = runner.addresses[0][1]
        yield service
    finally:
        await runner.cleanup()


@asynccontextmanager
async def beside(server_port: int, service: SipService) -> AsyncIterator[int]:
    """A port that leads to the service for what is its own, and to a LiveKit server for the rest.

    Each connection goes where its first request does.
    """

    async def route(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await reader.readline()
        port = service.port if SERVICE.encode() in first else server_port
        from_there, to_there = await asyncio.open_connection("127.0.0.1", port)
        to_there.write(first)
        await asyncio.gather(_pipe(reader, to_there), _pipe(from_there, writer))

    async with await asyncio.start_server(route, "127.0.0.1", 0) as router:
        yield int(router.sockets[0].getsockname()[1])


async def _pipe(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Until either end is gone, which the other end then sees."""
    try:
        while piece := await source.read(PIECE):
            sink.write(piece)
            await sink.drain()
    except ConnectionError:
        return
    finally:
        sink.close()
