"""People who vanish from a room and come back, and whether the call was one all the while."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
from itertools import pairwise

from agent.people import CLEAN_REASONS
from tests.e2e.accounts import Account, check_chain
from tests.e2e.caller import EAR_RATE, Caller
from tests.e2e.processes import LiveKitServer, WorkerProcess
from tests.e2e.sounds import last_recording, strength, tone
from tests.fakes.echo import PREFILL_POSITIONS


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


async def heard_again(who: Caller) -> Account:
    """The agent's account once what this person says comes back."""
    await who.until("the agent", lambda: who.agent is not None)
    await who.until("the agent's track", lambda: who.heard)
    await who.say(tone(700, 2))
    await who.until("its echo", lambda: strength(who.sound()[-EAR_RATE:], 700, EAR_RATE) > 0.1)
    return await who.stats()


def check_goes_on(*accounts: Account) -> None:
    """One session and one epoch, whose model takes one position for each frame."""
    for earlier, later in pairwise(accounts):
        assert (later["session"], later["epoch"]) == (earlier["session"], 0)
        assert later["position"] > earlier["position"]
        stepped = later["frames"]["stepped"]
        assert later["position"] == PREFILL_POSITIONS + stepped - 1, "skipped or stepped twice"
    assert later["hearing"]["frames_in"] > earlier["hearing"]["frames_in"]


async def check_ended(worker: WorkerProcess, session: str) -> None:
    """Somebody left this call on purpose, and it was one from its first frame to its last."""
    account = await worker.ended(session)
    assert account["reason"] == "participant_left"
    check_chain(account)
    recorded = last_recording(worker.folder)
    assert recorded["seqs"].tolist() == list(range(1, len(recorded["seqs"]) + 1))
    assert not recorded["epochs"].any()
    await worker.reach("the slot", lambda: worker.ready()["used_slots"] == 0)
