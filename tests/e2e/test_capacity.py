"""`max_sessions` is the one number: what the whole server says of it, on the real engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.connection import connection_routes
from agent.dispatch import Defaults
from agent.http_errors import RETRY_AFTER_S
from agent.job import JobRules
from agent.loading import make_engine
from agent.manager import SessionManager
from agent.settings import Settings
from agent.worker import FULL_LOAD, Worker
from tests.fakes.server import Server, serving

pytestmark = pytest.mark.e2e
SETTINGS = Settings(livekit_url="ws://livekit", livekit_api_key="k", livekit_api_secret="s" * 32)
CALL = "/v1/realtime?model=m"


@asynccontextmanager
async def server_of(slots: int, checkpoint: Path) -> AsyncIterator[tuple[Server, Worker]]:
    """The app with the page's token endpoint, and the worker that would report to LiveKit."""
    settings = replace(SETTINGS, model=str(checkpoint), max_sessions=slots)
    engine = await asyncio.to_thread(make_engine, settings)
    manager = SessionManager(engine)
    defaults = Defaults(engine.default_spec, engine.voices)
    worker = Worker(settings, manager, JobRules(defaults, resume_grace=1, max_call_duration=60))
    routes = connection_routes(settings, defaults, worker.has_room)
    try:
        await manager.warmup(1)
        async with serving(engine, manager=manager, routes=routes) as server:
            yield server, worker
    finally:
        await asyncio.to_thread(engine.shutdown)


async def reports(server: Server) -> dict[str, Any]:
    """What HTTP says of capacity."""
    async with server.http.get(f"{server.url}/ready") as response:
        ready = await response.json()
    async with server.http.get(f"{server.url}/v1/capabilities") as response:
        said = await response.json()
    async with server.http.get(f"{server.url}/metrics") as response:
        lines = dict(line.rsplit(" ", 1) for line in (await response.text()).splitlines())
    async with server.http.post(f"{server.url}/api/connection-details", json={}) as response:
        token = response.status, response.headers.get("Retry-After")
    return {
        "maxima": {
            ready["max_sessions"],
            ready["used_slots"] + ready["free_slots"],
            said["max_sessions"],
            int(float(lines["duplex_sessions_max"])),
        },
        "used": {ready["used_slots"], int(float(lines["duplex_sessions"]))},
        "token": token,
    }


# contract: A1, A2, A7
@pytest.mark.parametrize("slots", [1, 2, 3])
async def test_every_report_shows_max_sessions_and_the_next_call_is_refused(
    slots: int, tiny_checkpoint: Path
) -> None:
    async with server_of(slots, tiny_checkpoint) as (server, worker), AsyncExitStack() as calls:
        for used in range(slots):
            said = await reports(server)
            assert said == {"maxima": {slots}, "used": {used}, "token": (200, None)}
            assert worker.free == slots - used
            assert worker._server._load_fnc() == pytest.approx(FULL_LOAD * used / slots)
            client = await calls.enter_async_context(server.connect(CALL))
            session = (await client.until("session.created"))["session"]
            said_of_it = session["capabilities"]
            assert said_of_it["supports_multi_session"] is (slots > 1)
            assert said_of_it["supports_multi_session_same_replica"] is (slots > 1)
        said = await reports(server)
        assert said == {"maxima": {slots}, "used": {slots}, "token": (503, str(RETRY_AFTER_S))}
        assert worker.free == 0 and worker._server._load_fnc() == FULL_LOAD
        late = await calls.enter_async_context(server.connect(CALL))
        await late.rest()
        error = late.seen[0]["error"]
        assert error["code"] == "resource_exhausted"
        assert error["current"] == error["maximum"] == slots
        assert late.socket.close_code == 1013
