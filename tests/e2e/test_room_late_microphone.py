"""Who has no sound yet: silence clocks the agent, and what is said later is not late for ever."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import numpy as np
import pytest

from tests.e2e.accounts import (
    MOST_WAITING,
    Account,
    chain,
    check_chain,
    delayed_frames,
    hastened_frames,
    waiting,
)
from tests.e2e.caller import Caller
from tests.e2e.patience import PATIENCE_SECONDS, within
from tests.e2e.phones import phone_in, set_status
from tests.e2e.processes import LiveKitServer, WorkerProcess
from tests.e2e.sounds import chirp, chirp_times, last_recording

pytestmark = pytest.mark.e2e
FRAME_SECONDS, FRAME_SAMPLES, RATE = 0.08, 1920, 24_000
CHIRP_SECONDS = 6
LEAST_MADE = 40
MOST_DRIFT = 1
MOST_BEHIND = 6
"""Frames on their way: 200 ms in the microphone's own queue, the jitter buffer, one that fills."""
MOST_DELAYED = 5
"""Frames that WebRTC may put in while the chirp comes: twice the most that was ever seen."""
STALL_SECONDS = 0.4
"""Longer than a lead frame is waited for, and shorter than late ones are taken back."""


# contract: H2, H3
async def test_a_microphone_that_is_published_late_is_on_time(
    livekit: LiveKitServer, echo_worker: WorkerProcess, room_name: str
) -> None:
    async with Caller(livekit.url, room_name) as who:
        silent = await until_clocked(who)
        assert silent["hearing"]["clocked"] == silent["hearing"]["made"]
        await who.publish()
        assert who.track is not None
        who.track.mute()
        muted = await until_frames(who)
        who.track.unmute()
        said = await say_chirp(who)
    # Frames that the session has beyond those that came: what follows would be late by as many.
    ahead = [account["hearing"]["made"] - chain(account)["came"] for account in (muted, said)]
    print("frames beyond those of the microphone, first and last:", ahead)
    assert abs(ahead[1] - ahead[0]) <= MOST_DRIFT
    await check_on_time(echo_worker, muted, said)


# contract: H2
async def test_a_microphone_that_is_muted_from_the_start_is_on_time_when_it_opens(
    livekit: LiveKitServer, echo_worker: WorkerProcess, room_name: str
) -> None:
    async with Caller(livekit.url, room_name) as who:
        await who.publish(muted=True)
        muted = await until_clocked(who)
        assert muted["media"] == [], "packets came of a microphone that was never open"
        await check_repaid(who, echo_worker)
        assert who.track is not None
        who.track.unmute()
        said = await say_chirp(who)
    await check_on_time(echo_worker, muted, said)


# contract: H2, H7
async def test_a_telephone_that_is_active_before_its_audio_is_on_time(
    livekit: LiveKitServer, echo_worker: WorkerProcess, room_name: str
) -> None:
    async with phone_in(livekit.url, room_name, status="active") as phone:
        silent = await until_clocked(phone)
        assert silent["hearing"]["clocked"] == silent["hearing"]["made"]
        said = await say_chirp(phone)
        await set_status(phone, "hangup")
    await check_on_time(echo_worker, silent, said)


async def until_clocked(who: Caller) -> Account:
    """Until the agent has been heard for a while; its account then."""
    await who.until("four seconds of the agent", lambda: len(who.heard) > 200)
    account = await who.stats()
    assert account["hearing"]["made"] > LEAST_MADE
    return account


async def until_frames(who: Caller) -> Account:
    """The account in which frames of a microphone stand first."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (account := await who.stats())["hearing"]["frames_in"]:
            continue
    return account


async def check_repaid(who: Caller, worker: WorkerProcess) -> None:
    """Frames that a stalled worker gets late are taken back, as many as the clock has made."""
    before = chain(await who.stats())
    added = taken = 0
    async with within("the frames of a stall to be taken back"):
        while not added or taken < added:
            if not added:
                worker.signal(signal.SIGSTOP)
                await asyncio.sleep(STALL_SECONDS)
                worker.signal(signal.SIGCONT)
            now = chain(await who.stats())
            added, taken = (now[key] - before[key] for key in ("clocked", "discarded"))
    print(f"stalled: {added} frames were the clock's, {taken} were taken back")
    assert taken == added


async def say_chirp(who: Caller) -> Account:
    """Say it whole; the account at the moment at which all of it had been said."""
    await who.say(chirp(CHIRP_SECONDS))
    said = await who.stats()
    await who.until("the end of the chirp", lambda: who.states[-1] == "listening")
    return said


async def check_on_time(worker: WorkerProcess, silent: Account, said: Account) -> None:
    """Of a call that is over: silence until the look at `silent`, then the chirp, soon."""
    assert 0 <= waiting(said) <= MOST_WAITING
    check_chain(await worker.ended(said["session"]))
    heard = last_recording(worker.folder)["pcm"]
    assert not heard[: silent["frames"]["stepped"] * FRAME_SAMPLES].any()
    check_lateness(chirp_times(heard, RATE) / FRAME_SECONDS, silent, said)


def check_lateness(times: np.ndarray[Any, Any], silent: Account, said: Account) -> None:
    """A microphone that came late is not late for ever: all in frames of 80 ms.

    `times` has, for each frame of the session's input, the frame of the chirp in it.
    """
    index = np.flatnonzero(np.isfinite(times))[2:-2]
    offset = index - times[index]
    drift = float(np.median(offset[-10:]) - np.median(offset[:10]))
    when_said = times[: chain(said)["accepted"] - chain(said)["dropped"]]
    behind = CHIRP_SECONDS / FRAME_SECONDS - when_said[np.isfinite(when_said)][-1]
    delayed = delayed_frames(said) - delayed_frames(silent)
    hastened = hastened_frames(said) - hastened_frames(silent)
    print(
        f"chirp later at its end by {drift:.2f} frames, {behind:.1f} behind the microphone; "
        f"WebRTC put in {delayed:.2f} and took out {hastened:.2f}"
    )
    assert delayed <= MOST_DELAYED, "too much came late for a judgement"
    assert -MOST_DRIFT - hastened <= drift <= MOST_DRIFT + delayed
    assert behind <= MOST_BEHIND + delayed
