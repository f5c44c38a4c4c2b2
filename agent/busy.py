"""Tells people in a room that every slot is taken, since LiveKit itself tells them nothing.

A refused room goes to other workers first; only where no agent has come after a moment, those who
are in it get a data message. It talks to the LiveKit server, never joins a room.
"""

from __future__ import annotations

import asyncio
import json
import logging

import aiohttp
from livekit import api

from agent.settings import Settings
from agent.transcript import DATA_TOPIC

log = logging.getLogger(__name__)
PATIENCE_SECONDS = 1.0
"""How long another worker has to turn up, and between looks."""
LOOKS = 10
MESSAGE = json.dumps(
    {
        "type": "state",
        "t_ms": 0,
        "state": "refused",
        "code": "resource_exhausted",
        "message": "Every agent is busy. Please try again in a moment.",
    }
)


class BusyNotice:
    """One short-lived task for each refused room."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._tasks: set[asyncio.Task[None]] = set()

    def tell(self, room: str) -> None:
        task = asyncio.get_running_loop().create_task(self._watch(room))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _watch(self, room: str) -> None:
        told: set[str] = set()
        settings = self._settings
        try:
            async with api.LiveKitAPI(
                settings.livekit_url, settings.livekit_api_key, settings.livekit_api_secret
            ) as livekit:
                for _ in range(LOOKS):
                    await asyncio.sleep(PATIENCE_SECONDS)
                    if not await self._look(livekit, room, told):
                        return
        except (api.TwirpError, aiohttp.ClientError, OSError) as error:
            log.warning("could not tell a room that it is refused: %s", error)

    async def _look(self, livekit: api.LiveKitAPI, room: str, told: set[str]) -> bool:
        """Tell those who have not been told; False once an agent is there."""
        listing = await livekit.room.list_participants(api.ListParticipantsRequest(room=room))
        people = listing.participants
        if any(person.kind == api.ParticipantInfo.Kind.AGENT for person in people):
            return False
        active = [p for p in people if p.state == api.ParticipantInfo.State.ACTIVE]
        new = [p.identity for p in active if p.identity not in told]
        if new:
            await livekit.room.send_data(
                api.SendDataRequest(
                    room=room,
                    data=MESSAGE.encode(),
                    kind=api.DataPacket.Kind.RELIABLE,
                    destination_identities=new,
                    topic=DATA_TOPIC,
                )
            )
            told.update(new)
        return True
