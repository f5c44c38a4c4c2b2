"""The worker's place in LiveKit: registration, load, accept or reject, drain.

The slots belong to the engine; this module only reports them. Jobs run as threads of this process
with an event loop each, since all of them share its one engine.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from livekit.agents import AgentServer, JobContext, JobExecutorType, JobRequest

from agent.busy import BusyNotice
from agent.job import JobRules, run_job
from agent.manager import SessionManager
from agent.outages import HelplessServer, LostServer, ask_server
from agent.settings import Settings
from agent.tally import RoomTally

log = logging.getLogger(__name__)
AGENT_DISPLAY_NAME = "PersonaPlex"
FULL_LOAD = 0.69
"""What a worker without a free slot reports; half full is half of it.

LiveKit servers dispatch nothing to workers at or above their `target_load` (0.7 unless configured),
so used / max as it stands would leave the last slots empty. Below it a full worker is still asked
where no other is free, and can tell the person in the room why nobody comes.
"""
ALWAYS_AVAILABLE = float("inf")
RETRY_FOR_EVER = 2**31
IDLE_RUNNERS = 1


class Worker:
    """One registration with one LiveKit server."""

    def __init__(self, settings: Settings, manager: SessionManager, rules: JobRules) -> None:
        self.tally = RoomTally()
        self._settings = settings
        self._manager = manager
        self._rules = rules
        self._lock = threading.Lock()
        self._coming = 0
        """Jobs accepted whose thread has not begun yet."""
        self._rooms: set[str] = set()
        self._busy = BusyNotice(settings)
        self._registered: Callable[[], None] = lambda: None
        self._lost = LostServer(settings.livekit_url)
        self._helpless = HelplessServer(settings.livekit_url, partial(ask_server, settings))
        self._server = self._make_server()

    def _make_server(self) -> AgentServer:
        settings = self._settings
        server = AgentServer(
            job_executor_type=JobExecutorType.THREAD,
            load_fnc=lambda: self._manager.load * FULL_LOAD,
            load_threshold=ALWAYS_AVAILABLE,
            num_idle_processes=IDLE_RUNNERS,
            max_retry=RETRY_FOR_EVER,
            ws_url=settings.livekit_url,
            api_key=settings.livekit_api_key,
            api_secret=settings.livekit_api_secret,
            host="127.0.0.1",
            port=0,
        )
        server.rtc_session(
            self._entrypoint, agent_name=settings.agent_name, on_request=self._request
        )
        server.on("worker_registered", self._announce)
        return server

    @property
    def free(self) -> int:
        """Slots that nobody holds and no accepted job is about to take."""
        with self._lock:
            return max(0, self._manager.max_sessions - self._manager.used - self._coming)

    def has_room(self, name: str) -> bool:
        """Whether somebody who joins this room will find an agent."""
        return name in self._rooms or (self._manager.ready and self.free > 0)

    async def run(self, registered: Callable[[], None]) -> None:
        """Serve until `aclose`; comes back by itself when the LiveKit server does."""
        self._registered = registered
        framework = logging.getLogger("livekit.agents")
        framework.addFilter(self._lost)
        watching = asyncio.create_task(self._helpless.run())
        try:
            await self._server.run(devmode=False)
        finally:
            watching.cancel()
            framework.removeFilter(self._lost)

    async def drain(self) -> None:
        """Take no more jobs; return when those that run are over."""
        await self._server.drain(timeout=None)

    async def aclose(self) -> None:
        await self._server.aclose()
        await self._busy.aclose()

    def _announce(self, worker_id: str, server_info: Any) -> None:
        settings = self._settings
        self._lost.over()
        log.info("registered with %s as %s", settings.livekit_url, settings.agent_name)
        self._registered()

    async def _request(self, request: JobRequest) -> None:
        if request.room.name in self._rooms:
            # A server that was restarted dispatches anew to a room whose call goes on.
            await request.reject(terminate=True)
            return
        if self._manager.draining or not self._take():
            log.info("no slot is free, another worker may take the room")
            await request.reject(terminate=False)
            self._busy.tell(request.room.name)
            return
        try:
            await request.accept(
                name=AGENT_DISPLAY_NAME,
                attributes={"lk.agent.state": "initializing"},
            )
        except Exception:
            self._arrived()
            raise

    def _take(self) -> bool:
        if self.free < 1:
            return False
        with self._lock:
            self._coming += 1
        return True

    def _arrived(self) -> None:
        with self._lock:
            self._coming -= 1

    async def _entrypoint(self, ctx: JobContext) -> None:
        """In the job's own thread and loop."""
        self._arrived()
        room = ctx.job.room.name
        self._rooms.add(room)
        try:
            await run_job(ctx, self._manager, self._rules, self.tally)
        finally:
            self._rooms.discard(room)
