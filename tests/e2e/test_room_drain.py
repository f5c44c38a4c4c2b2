"""Deploys that cut nobody off: SIGTERM, the second signal, the end of the drain time."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent.speaker import QUEUE_FRAMES
from tests.e2e.accounts import (
    CONCEALED_A_FRAME,
    MOST_WAITING,
    Account,
    chain,
    check_chain,
    concealed_frames,
    waiting,
)
from tests.e2e.caller import EAR_RATE, Caller
from tests.e2e.conftest import WorkerFactory
from tests.e2e.ears import changed_samples, frames_silent, frames_skipped
from tests.e2e.processes import LiveKitServer
from tests.e2e.sounds import chirp, chirp_times, last_recording

pytestmark = pytest.mark.e2e
CHIRP_SECONDS = 8
CHIRP_FRAMES = round(CHIRP_SECONDS / 0.08)
MOST_EXCUSED = 0.08 * CHIRP_FRAMES
"""Frames that a busy machine may bring too late, there and back: twice what was seen on one."""
EDGES = 1.25
"""What a frame that was lost takes with it of its neighbours, fading out and in."""


# contract: J3
@pytest.mark.figures
async def test_drain_finishes_calls_and_the_next_goes_to_the_other_worker(
    livekit: LiveKitServer, start_worker: WorkerFactory, tmp_path: Path, room_name: str
) -> None:
    # By load it would be the next call's as well as the other: who draws back does so by draining.
    first = await start_worker("--max-sessions", "8", "--record", str(tmp_path))
    callers = [Caller(livekit.url, f"{room_name}-{number}") for number in range(2)]
    for who in callers:
        await who.connect()
        await who.publish()
        await who.until_agent()
    second = await start_worker("--max-sessions", "2")
    before = [await who.stats() for who in callers]
    changed = [await changed_samples(who) for who in callers]
    playing = [asyncio.create_task(who.say(chirp(CHIRP_SECONDS))) for who in callers]
    first.signal(signal.SIGTERM)
    await first.reach("readiness to end", lambda: first.ready()["status"] == 503)
    async with AsyncExitStack() as new_calls:
        for taken in (1, 2):
            new = Caller(livekit.url, f"{room_name}-new-{taken}")
            await new_calls.enter_async_context(new)
            await new.until_agent()
            assert second.ready()["used_slots"] == taken
        await asyncio.gather(*playing)
        for who in callers:
            await who.until("the end of the chirp", lambda who=who: who.states[-1] == "listening")
        after = [await who.stats() for who in callers]
    for who, was, now, changed_before in zip(callers, before, after, changed, strict=True):
        check_nothing_lost(was, now)
        late = named_late(now) - named_late(was)
        on_the_way = (await changed_samples(who) - changed_before) / CONCEALED_A_FRAME
        assert late + on_the_way <= MOST_EXCUSED, "too much came late for a judgement"
        check_heard(who, late, on_the_way)
        assert first.running, "it ended before the last call did"
        await who.leave()
        account = await first.ended(now["session"])
        assert account["reason"] == "participant_left"
        check_chain(account)
        assert chain(account)["unheard"] <= QUEUE_FRAMES
        check_recording(last_recording(tmp_path), account, late)
    assert await asyncio.to_thread(first.wait) == 0


def check_nothing_lost(was: Account, now: Account) -> None:
    """One call between two looks at it: each of its frames was stepped and played.

    One that the machine brought too late was stepped as the clock's, never left out.
    """
    assert now["session"] == was["session"]
    grown = {stage: now_count - chain(was)[stage] for stage, now_count in chain(now).items()}
    print("while draining:", grown)
    assert grown["dropped"] == grown["unused"] == 0
    assert grown["discarded"] <= grown["clocked"]
    speaker = now["speaker"]
    assert {speaker[key] for key in ("dropped", "cleared", "failed")} == {0}
    assert grown["emitted"] - grown["captured"] <= QUEUE_FRAMES + 1, "the speaker kept some"
    assert 0 <= waiting(now) <= MOST_WAITING
    assert now["position"] - was["position"] == grown["stepped"] > CHIRP_FRAMES


def named_late(account: Account) -> float:
    """Frames that a busy machine brought too late: what WebRTC made up, and the room's clock."""
    return concealed_frames(account) + chain(account)["clocked"]


def check_heard(who: Caller, late: float, on_the_way: float) -> None:
    """What came back to the caller: the chirp, but for what WebRTC changed on its ways."""
    skipped, silent = frames_skipped(who, CHIRP_SECONDS), frames_silent(who)
    print(
        f"to the ear {skipped:.2f} frames were skipped and {silent:.2f} silent, of {late:.2f} that "
        f"came late and {on_the_way:.2f} changed on the way back"
    )
    # The receiver cuts its sound anywhere within a frame: so are the edges of what is named.
    assert max(skipped, silent) <= (late + on_the_way) * EDGES + 1


def check_recording(
    recorded: dict[str, np.ndarray[Any, Any]], account: Account, late: float
) -> None:
    """What the engine was given: no number left out, and the chirp but for what came too late."""
    stepped = len(recorded["seqs"])
    assert recorded["seqs"].tolist() == list(range(1, stepped + 1))
    assert account["frames"]["stepped"] <= stepped <= account["frames"]["submitted"]
    times = chirp_times(recorded["pcm"], EAR_RATE)
    index = np.flatnonzero(np.isfinite(times))
    print(f"{len(index)} frames of the chirp, of {CHIRP_FRAMES}; {late:.2f} came late")
    silent_within = index[-1] - index[0] + 1 - len(index)
    assert silent_within <= late
    assert len(index) >= CHIRP_FRAMES - late


# contract: J3
async def test_a_second_signal_stops_at_once(
    livekit: LiveKitServer, start_worker: WorkerFactory, room_name: str
) -> None:
    worker = await start_worker()
    async with Caller(livekit.url, room_name) as who:
        await who.until_agent()
        worker.signal(signal.SIGTERM)
        await worker.reach("drain", lambda: "draining: 1" in worker.text())
        assert worker.running
        worker.signal(signal.SIGTERM)
        assert await asyncio.to_thread(worker.wait) == 1
        await who.until("the agent to be gone", lambda: who.agent is None)


# contract: H7, J3
async def test_calls_end_with_a_reason_at_their_longest_and_at_the_end_of_the_drain_time(
    livekit: LiveKitServer, start_worker: WorkerFactory, room_name: str
) -> None:
    worker = await start_worker("--drain-time", "1", "--max-call-duration", "8")
    async with Caller(livekit.url, room_name) as who:
        await who.until("the end", lambda: not who.room.isconnected())
        assert reason_of(who) == "max_call_duration"
    async with Caller(livekit.url, f"{room_name}-2") as who:
        await who.until_agent()
        worker.signal(signal.SIGTERM)
        await who.until("the end", lambda: not who.room.isconnected())
        assert reason_of(who) == "drain"
    assert await asyncio.to_thread(worker.wait) == 0


def reason_of(who: Caller) -> str:
    closed = who.of_type("state")[-1]
    assert closed["state"] == "closed"
    return str(closed["reason"])
