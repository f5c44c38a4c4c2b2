"""People who vanish from a room, and the server's news of it."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal

from agent.people import CLEAN_REASONS
from tests.e2e.accounts import Account
from tests.e2e.caller import Caller
from tests.e2e.processes import LiveKitServer
from tests.e2e.sounds import tone


def _stay(url: str, room: str, identity: str, pipe: object) -> None:
    """A participant in a process of its own, to be killed."""

    async def main() -> None:
        who = Caller(url, room, identity=identity)
        await who.connect()
        await who.until_agent()
        await who.say(tone(500, 1))
        pipe.send(await who.stats())  # type: ignore[attr-defined]
        await who.say(tone(500, 600))

    asyncio.run(main())


async def vanish(livekit: LiveKitServer, room: str, identity: str) -> dict[str, object]:
    """Join from another process, then lose it to SIGKILL; the agent's account until then."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    child = context.Process(target=_stay, args=(livekit.url, room, identity, theirs))
    child.start()
    account = await asyncio.to_thread(ours.recv)
    assert child.pid is not None
    child.kill()
    await asyncio.to_thread(child.join)
    assert child.exitcode == -signal.SIGKILL
    return account  # type: ignore[no-any-return]


def watcher_in(url: str, room: str) -> Caller:
    """Somebody who counts for nothing and sees what the server says of the others."""
    return Caller(url, room, identity="watcher", kind="agent", dispatch=None)


async def until_lost(watcher: Caller, identity: str) -> Account:
    """Until the server's own news that this participant is lost; the agent's account then."""
    others = watcher.room.remote_participants
    lost = others[identity]
    await watcher.until("the agent", lambda: watcher.agent is not None)
    await watcher.until("news of the loss", lambda: identity not in others)
    assert lost.disconnect_reason not in CLEAN_REASONS
    return await watcher.stats()
