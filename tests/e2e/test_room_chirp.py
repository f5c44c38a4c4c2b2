"""Every frame of a minute of sound is accounted for, on its way in and on its way back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from tests.e2e.accounts import Account, check_chain
from tests.e2e.caller import EAR_RATE, Caller
from tests.e2e.conftest import WorkerFactory
from tests.e2e.patience import within
from tests.e2e.processes import LiveKitServer, WorkerProcess
from tests.e2e.sounds import chirp, chirp_times, last_recording
from tests.fakes.echo import PREFILL_POSITIONS

pytestmark = pytest.mark.e2e

CHIRP_SECONDS = 60
SETTLED_SECONDS = 20
FRAME_SECONDS = 0.08
FRAME_SAMPLES, PIECE_SAMPLES = 1920, 480
LEAST_QUIET_IN, LEAST_QUIET_OUT = 0.6, 0.4
"""Of the seconds; the receiver's own buffer stretches and shortens sound as a matter of course."""
CONCEALMENT_SPAN = 1.0
"""WebRTC counts concealed samples; the spans are known to the second in which we look."""


@dataclass(frozen=True)
class Look:
    """One second's counters: how far each side was, and what had gone wrong until then."""

    account: Account
    pieces: int
    """Of 20 ms, that the receiver had heard."""
    heard_badly: int
    """Samples that the receiver's jitter buffer made up, put in or took out."""
    resident: float

    @property
    def made(self) -> int:
        return int(self.account["hearing"]["made"])

    @property
    def frames_heard(self) -> int:
        return self.pieces * PIECE_SAMPLES // FRAME_SAMPLES

    @property
    def came_badly(self) -> int:
        """Whatever was concealed, clocked, discarded or dropped before the engine."""
        account = self.account
        concealed = sum(media["concealed_samples"] for media in account["media"])
        clock = account["hearing"]["clocked"] + account["hearing"]["discarded"]
        return int(concealed + clock + account["frames"]["dropped_overflow"])

    @property
    def went_badly(self) -> int:
        """The same, to the receiver's ear."""
        speaker = self.account["speaker"]
        return self.came_badly + self.heard_badly + speaker["dropped"] + speaker["failed"]


async def watch(who: Caller, worker: WorkerProcess) -> list[Look]:
    """Look once a second while the chirp plays."""
    looks = []
    process = psutil.Process(worker.pid)
    playing = asyncio.create_task(who.say(chirp(CHIRP_SECONDS)))
    while not playing.done():
        await asyncio.wait([playing], timeout=1.0)
        resident = process.memory_info().rss / 2**20
        account = await who.stats()
        looks.append(Look(account, len(who.heard), await changed_samples(who), resident))
    await playing
    return looks


async def changed_samples(who: Caller) -> int:
    assert who.agent_track is not None
    async with within("the receiver's statistics"):
        stats = await who.agent_track.get_stats()
    inbound = [entry.inbound_rtp.inbound for entry in stats if entry.HasField("inbound_rtp")]
    return sum(
        track.concealed_samples
        + track.inserted_samples_for_deceleration
        + track.removed_samples_for_acceleration
        for track in inbound
    )


def disturbed_frames(
    looks: list[Look], place: Callable[[Look], int], events: Callable[[Look], int]
) -> set[int]:
    """Frames within a second of a look before which something had happened."""
    disturbed: set[int] = set()
    margin = int(CONCEALMENT_SPAN / FRAME_SECONDS)
    before = (0, 0)
    for look in looks:
        now = (place(look), events(look))
        if now[1] > before[1]:
            disturbed |= set(range(before[0] - margin, now[0] + margin))
        before = now
    return disturbed


def demand_quiet(looks: list[Look], events: Callable[[Look], int], least: float) -> None:
    """Excused spans are exceptions: most seconds have to be without an event."""
    counts = [0, *(events(look) for look in looks)]
    quiet = sum(now == before for before, now in pairwise(counts)) / len(looks)
    print(f"{quiet:.0%} of the seconds are without an event")
    assert quiet >= least, "the machine was too busy: too few seconds were undisturbed"


# contract: C6, H2, H3
async def test_chirp_is_accounted_for_frame_by_frame(
    livekit: LiveKitServer, start_worker: WorkerFactory, tmp_path: Path, room_name: str
) -> None:
    worker = await start_worker("--record", str(tmp_path))
    async with Caller(livekit.url, room_name) as who:
        await who.until_agent()
        looks = await watch(who, worker)
        await who.until("the end of the chirp", lambda: who.states[-1] == "listening")
    account = await worker.ended(looks[0].account["session"])
    print("counters:", account)
    check_chain(account)

    frames = account["frames"]
    recorded = last_recording(tmp_path)
    stepped = len(recorded["seqs"])
    assert recorded["seqs"].tolist() == list(range(1, stepped + 1))
    assert frames["stepped"] <= stepped <= frames["submitted"]
    assert account["position"] == PREFILL_POSITIONS + frames["stepped"] - 1

    came_badly = disturbed_frames(looks, attrgetter("made"), attrgetter("came_badly"))
    demand_quiet(looks, attrgetter("came_badly"), LEAST_QUIET_IN)
    check_times(chirp_times(recorded["pcm"], EAR_RATE), came_badly)
    went_badly = disturbed_frames(looks, attrgetter("frames_heard"), attrgetter("went_badly"))
    demand_quiet(looks, attrgetter("went_badly"), LEAST_QUIET_OUT)
    check_heard(chirp_times(who.sound(), EAR_RATE), went_badly)

    settled, last = looks[SETTLED_SECONDS].resident, looks[-1].resident
    print(f"resident memory: {settled:.1f} MiB at {SETTLED_SECONDS} s, {last:.1f} MiB at the end")
    assert last - settled < 5


def check_times(times: np.ndarray[Any, Any], disturbed: set[int]) -> None:
    """The session's input is the chirp, in order and on time."""
    index = np.flatnonzero(np.isfinite(times))
    whole = index[2:-2]
    assert len(whole) > 0.9 * CHIRP_SECONDS / FRAME_SECONDS
    offset = times[whole] - whole * FRAME_SECONDS
    late = np.abs(offset - np.median(offset)) / FRAME_SECONDS
    quiet = np.array([frame not in disturbed for frame in whole])
    forwards = np.diff(times[whole]) > 0
    print(
        f"frames off by at most {late.max():.2f}, undisturbed ones {late[quiet].max():.2f}; "
        f"{(~forwards).sum()} steps are not forwards"
    )
    assert forwards[quiet[:-1] & quiet[1:]].all(), "the chirp runs backwards somewhere"
    # What conceals a late packet says a moment of the chirp twice.
    assert forwards.mean() > 0.98
    assert late[quiet].max() <= 2


def check_heard(times: np.ndarray[Any, Any], disturbed: set[int]) -> None:
    """What the receiver hears is the same chirp, from one end to the other, and never backwards."""
    index = np.flatnonzero(np.isfinite(times))
    heard = times[index]
    forwards = np.diff(heard) > 0
    quiet = np.array([frame not in disturbed for frame in index])
    both_quiet = quiet[:-1] & quiet[1:]
    print(
        f"heard {heard[0]:.2f} s to {heard[-1]:.2f} s of the chirp in {len(heard)} frames, "
        f"{both_quiet.sum()} of them undisturbed; {(~forwards).sum()} steps are not forwards"
    )
    assert heard[2] < 1.0
    assert heard[-3] > CHIRP_SECONDS - 1.0
    assert forwards[both_quiet].mean() > 0.99
    # The way back has a jitter buffer of its own, which conceals where the machine is busy.
    assert forwards.mean() > 0.9
    assert len(heard) > 0.9 * CHIRP_SECONDS / FRAME_SECONDS
