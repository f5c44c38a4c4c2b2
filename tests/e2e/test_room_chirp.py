"""Every frame of a minute of sound is accounted for, on its way in and on its way back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from tests.e2e.caller import EAR_RATE, Caller
from tests.e2e.conftest import WorkerFactory
from tests.e2e.processes import LiveKitServer, WorkerProcess
from tests.e2e.sounds import chirp, chirp_times, last_recording
from tests.fakes.echo import PREFILL_POSITIONS

pytestmark = pytest.mark.e2e

CHIRP_SECONDS = 60
FRAME_SECONDS = 0.08
CONCEALMENT_SPAN = 1.0
"""WebRTC counts concealed samples; the spans are known to the second in which we look."""


async def watch(who: Caller, worker: WorkerProcess) -> tuple[list[dict[str, Any]], dict[int, int]]:
    """The agent's account and the process's memory, once a second, while the chirp plays."""
    accounts, memory = [], {}
    process = psutil.Process(worker.pid)
    playing = asyncio.create_task(who.say(chirp(CHIRP_SECONDS)))
    second = 0
    while not playing.done():
        await asyncio.wait([playing], timeout=1.0)
        second += 1
        accounts.append(await who.stats())
        memory[second] = process.memory_info().rss
    await playing
    return accounts, memory


def disturbed_frames(accounts: list[dict[str, Any]]) -> set[int]:
    """Session frames within a second in which something was concealed, clocked or dropped."""
    disturbed: set[int] = set()
    before = (0, 0)
    for account in accounts:
        made = account["hearing"]["made"]
        events = sum(media["concealed_samples"] for media in account["media"])
        events += account["hearing"]["clocked"] + account["hearing"]["discarded"]
        events += account["frames"]["dropped_overflow"]
        if events > before[1]:
            margin = int(CONCEALMENT_SPAN / FRAME_SECONDS)
            disturbed |= set(range(before[0] - margin, made + margin))
        before = (made, events)
    return disturbed


# contract: C6, H2, H3
async def test_chirp_is_accounted_for_frame_by_frame(
    livekit: LiveKitServer, start_worker: WorkerFactory, tmp_path: Path, room_name: str
) -> None:
    worker = await start_worker("--record", str(tmp_path))
    async with Caller(livekit.url, room_name) as who:
        await who.until_agent()
        accounts, memory = await watch(who, worker)
        await who.until("the end of the chirp", lambda: who.states[-1] == "listening")
    account = await worker.ended(accounts[0]["session"])
    print("counters:", account)

    hearing, frames, speaker = account["hearing"], account["frames"], account["speaker"]
    assert hearing["made"] == hearing["lead_frames"] - hearing["discarded"] + hearing["clocked"]
    assert frames["accepted"] == hearing["made"] - account["unused"]
    lost = frames["dropped_overflow"] + frames["dropped_close"]
    assert frames["stepped"] == frames["accepted"] - lost
    gone = speaker["dropped"] + speaker["failed"] + speaker["unplayed"] + speaker["cleared"]
    assert speaker["captured"] == frames["stepped"] - gone

    recorded = last_recording(tmp_path)
    stepped = len(recorded["seqs"])
    assert recorded["seqs"].tolist() == list(range(1, stepped + 1))
    assert frames["stepped"] <= stepped <= frames["submitted"]
    assert account["position"] == PREFILL_POSITIONS + frames["stepped"] - 1

    times = chirp_times(recorded["pcm"], 24_000)
    check_times(times, disturbed_frames(accounts))
    check_heard(chirp_times(who.sound(), EAR_RATE))

    mib = {second: round(rss / 2**20, 1) for second, rss in memory.items()}
    growth = mib[max(mib)] - mib[20]
    print(f"resident memory: {mib[20]} MiB at 20 s, {mib[max(mib)]} MiB at {max(mib)} s")
    assert growth < 5


def check_times(times: np.ndarray[Any, Any], disturbed: set[int]) -> None:
    """The session's input is the chirp, in order and on time."""
    index = np.flatnonzero(np.isfinite(times))
    whole = index[2:-2]
    assert len(whole) > 0.9 * CHIRP_SECONDS / FRAME_SECONDS
    assert (np.diff(times[whole]) > 0).all(), "the chirp runs backwards somewhere"
    offset = times[whole] - whole * FRAME_SECONDS
    late = np.abs(offset - np.median(offset)) / FRAME_SECONDS
    quiet = np.array([frame not in disturbed for frame in whole])
    print(f"frames off by at most {late.max():.2f}, undisturbed ones {late[quiet].max():.2f}")
    assert late[quiet].max() <= 2


def check_heard(times: np.ndarray[Any, Any]) -> None:
    """What the receiver hears is the same chirp, from one end to the other."""
    heard = times[np.isfinite(times)]
    steps = np.diff(heard)
    print(f"heard {heard[0]:.2f} s to {heard[-1]:.2f} s of the chirp in {len(heard)} frames")
    assert heard[2] < 1.0
    assert heard[-3] > CHIRP_SECONDS - 1.0
    # The way back has a jitter buffer of its own, which conceals where the machine is busy.
    assert (steps > 0).mean() > 0.9
    assert len(heard) > 0.9 * CHIRP_SECONDS / FRAME_SECONDS
