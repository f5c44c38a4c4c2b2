"""Every frame of a minute of sound is accounted for, on its way in and on its way back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from tests.e2e.accounts import Account, check_chain, check_loss, check_under_way
from tests.e2e.caller import EAR_RATE, Caller
from tests.e2e.conftest import WorkerFactory
from tests.e2e.ears import concealed_samples
from tests.e2e.processes import LiveKitServer, WorkerProcess
from tests.e2e.sounds import chirp, chirp_times, last_recording
from tests.fakes.echo import PREFILL_POSITIONS

pytestmark = pytest.mark.e2e

Times = np.ndarray[Any, Any]
CHIRP_SECONDS = 60
SETTLED_SECONDS = 20
FRAME_SECONDS = 0.08
CHIRP_FRAMES = round(CHIRP_SECONDS / FRAME_SECONDS)
FRAME_SAMPLES, PIECE_SAMPLES = 1920, 480
LOOK_SECONDS = 0.2
MICROPHONE_MS = 1000
"""The person's own microphone is not what is tested: a busy machine must not make it stutter."""
NEAR = 2
"""Frames: how far off one may be, and how far from the counter that names what happened to it."""
WAY_BACK = 9
"""Frames that fit between the engine and the receiver's ear: queue, source, jitter buffer."""
MOST_SPANS_IN, MOST_SPANS_OUT = 0.1, 0.25
"""Share of the frames that spans may hold; on an idle machine there are none."""
MOST_EXCUSED = 0.02
"""Share of the frames that may break a rule within them."""
MOST_GROWTH_MB = 5


@dataclass(frozen=True)
class Look:
    """The counters at one moment: how far each side was, and what had gone wrong until then."""

    second: float
    account: Account
    pieces: int
    """Of 20 ms, that the receiver had heard."""
    heard_concealed: int
    """Samples that the receiver's jitter buffer made up."""
    resident_mb: float

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
        return self.came_badly + self.heard_concealed + int(self.account["speaker"]["dropped"])


async def watch(who: Caller, worker: WorkerProcess) -> list[Look]:
    """Look again and again until the chirp has been played, and once behind it."""
    looks = []
    process = psutil.Process(worker.pid)
    began = time.monotonic()
    playing = asyncio.create_task(play(who))
    over = False
    while not over:
        await asyncio.wait([playing], timeout=LOOK_SECONDS)
        over = playing.done()
        resident = process.memory_info().rss / 1e6
        account, pieces = await who.stats(), len(who.heard)
        second = time.monotonic() - began
        looks.append(Look(second, account, pieces, await concealed_samples(who), resident))
    await playing
    return looks


async def play(who: Caller) -> None:
    await who.say(chirp(CHIRP_SECONDS))
    await who.until("the end of the chirp", lambda: who.states[-1] == "listening")


def named_spans(
    looks: list[Look], place: Callable[[Look], int], events: Callable[[Look], int], later: int
) -> set[int]:
    """Frames between two looks of which the second counts more events than the first."""
    spans: set[int] = set()
    before = (0, 0)
    for look in looks:
        now = (place(look), events(look))
        if now[1] > before[1]:
            spans |= set(range(before[0] - NEAR, now[0] + later))
        before = now
    return spans


# contract: C6, H2, H3
@pytest.mark.figures
async def test_chirp_is_accounted_for_frame_by_frame(
    livekit: LiveKitServer, start_worker: WorkerFactory, tmp_path: Path, room_name: str
) -> None:
    worker = await start_worker("--record", str(tmp_path))
    async with Caller(livekit.url, room_name, microphone_ms=MICROPHONE_MS) as who:
        await who.until_agent()
        looks = await watch(who, worker)
    account = await worker.ended(looks[0].account["session"])
    print("counters:", account)
    check_chain(account)
    check_loss(account)
    for look in looks:
        check_under_way(look.account)

    recorded = last_recording(tmp_path)
    check_identities(account, recorded)
    came_badly = named_spans(looks, attrgetter("made"), attrgetter("came_badly"), NEAR)
    check_input(chirp_times(recorded["pcm"], EAR_RATE), came_badly, account["hearing"]["clocked"])
    went_badly = named_spans(looks, attrgetter("frames_heard"), attrgetter("went_badly"), WAY_BACK)
    check_heard(chirp_times(who.sound(), EAR_RATE), went_badly)
    check_memory(looks)


def check_identities(account: Account, recorded: dict[str, Any]) -> None:
    """One epoch, its numbers without hole or repeat, and a position of the model for each."""
    frames = account["frames"]
    stepped = len(recorded["seqs"])
    assert recorded["seqs"].tolist() == list(range(1, stepped + 1))
    assert set(recorded["epochs"].tolist()) == {0} and frames["epochs"] == 1
    assert frames["stepped"] <= stepped <= frames["submitted"]
    assert account["position"] == PREFILL_POSITIONS + frames["stepped"] - 1


def check_input(times: Times, spans: set[int], clocked: int) -> None:
    """The session's input is the chirp, in order and on time, without a hole that has no name."""
    index = np.flatnonzero(np.isfinite(times))
    holes = set(range(index[0], index[-1])) - set(index.tolist())
    whole = index[2:-2]
    offset = times[whole] / FRAME_SECONDS - whole
    late = np.abs(offset - np.median(offset))
    backwards = np.append(np.diff(times[whole]) <= 0, False)
    print(f"came: {len(index)} frames of the chirp, off by at most {late.max():.2f}")
    print(f"silent ones among them: {sorted(holes)}, of {clocked} clocked in the call")
    assert len(index) >= (1 - MOST_EXCUSED) * CHIRP_FRAMES
    assert len(holes) <= clocked
    check_spans(range(index[0], index[-1]), spans, MOST_SPANS_IN)
    check_excused(holes | set(whole[backwards | (late > NEAR)].tolist()), spans)


def check_heard(times: Times, spans: set[int]) -> None:
    """What the receiver hears is the same chirp, from one end to the other, and never backwards."""
    index = np.flatnonzero(np.isfinite(times))
    whole = index[2:-2]
    heard = times[whole]
    steps = np.diff(heard) / FRAME_SECONDS - np.diff(whole)
    backwards, leaps = np.diff(heard) <= 0, np.abs(steps) > NEAR
    print(f"heard: {len(index)} frames, {heard[0]:.2f} s to {heard[-1]:.2f} s of the chirp")
    assert heard[0] < 1.0
    assert heard[-1] > CHIRP_SECONDS - 1.0
    assert len(index) >= (1 - MOST_EXCUSED) * CHIRP_FRAMES
    check_spans(range(index[0], index[-1]), spans, MOST_SPANS_OUT)
    check_excused(set(whole[:-1][backwards | leaps].tolist()), spans)


def check_spans(frames: range, spans: set[int], most: float) -> None:
    share = len(spans & set(frames)) / len(frames)
    print(f"{share:.1%} of the frames lie where a counter names something, at most {most:.0%}")
    assert share <= most, "the machine was too busy: too few frames were undisturbed"


def check_excused(odd: set[int], spans: set[int]) -> None:
    print(f"out of order, late or silent: {sorted(odd)}")
    assert odd <= spans, f"frames {sorted(odd - spans)} are wrong where no counter says so"
    assert len(odd) <= MOST_EXCUSED * CHIRP_FRAMES


def check_memory(looks: list[Look]) -> None:
    settled = next(look for look in looks if look.second >= SETTLED_SECONDS)
    last = looks[-1]
    for look in (settled, last):
        print(f"resident memory at {look.second:.1f} s: {look.resident_mb:.1f} MB")
    assert last.second >= CHIRP_SECONDS
    assert last.resident_mb - settled.resident_mb < MOST_GROWTH_MB
