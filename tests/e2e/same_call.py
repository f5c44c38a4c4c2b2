"""Whether a call went on as one session, whatever became of the connection of who speaks in it."""

from __future__ import annotations

from itertools import pairwise

from tests.e2e.accounts import Account, check_chain
from tests.e2e.caller import EAR_RATE, Caller
from tests.e2e.processes import WorkerProcess
from tests.e2e.sounds import last_recording, strength, tone
from tests.fakes.echo import PREFILL_POSITIONS


async def heard_again(who: Caller, hz: float = 700) -> Account:
    """The agent's account once what this person says comes back."""
    await who.until("the agent", lambda: who.agent is not None)
    await who.until("the agent's track", lambda: who.heard)
    await who.say(tone(hz, 1.5))
    await who.until("its echo", lambda: strength(who.sound()[-EAR_RATE:], hz, EAR_RATE) > 0.1)
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
    await worker.reach_idle()
