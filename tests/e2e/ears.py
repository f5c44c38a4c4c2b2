"""What a person in a room really heard of a chirp, and what the way to their ear did to it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from tests.e2e.caller import EAR_RATE, Caller
from tests.e2e.patience import within
from tests.e2e.sounds import AUDIBLE_PEAK, chirp_times

FRAME_SECONDS = 0.08
MEASURED_WITHIN = 0.25
"""Of a frame: how well the time of a moment of the chirp is known."""
PIECE_SAMPLES, PIECES_A_FRAME = EAR_RATE // 100, 8


async def concealed_samples(who: Caller) -> int:
    """48 kHz samples that the receiver's jitter buffer made up."""
    return sum(stream.concealed_samples for stream in await _inbound(who))


async def changed_samples(who: Caller) -> int:
    """48 kHz samples that the receiver's jitter buffer made up, put in or took out."""
    return sum(
        stream.concealed_samples
        + stream.inserted_samples_for_deceleration
        + stream.removed_samples_for_acceleration
        for stream in await _inbound(who)
    )


async def _inbound(who: Caller) -> list[Any]:
    assert who.agent_track is not None
    async with within("the receiver's statistics"):
        stats = await who.agent_track.get_stats()
    return [entry.inbound_rtp.inbound for entry in stats if entry.HasField("inbound_rtp")]


def frames_skipped(who: Caller, seconds: float) -> float:
    """How far this person's chirp of so many seconds leapt ahead of time, or lacks at its ends."""
    sounding = audible(who).reshape(-1, PIECES_A_FRAME).all(axis=1)
    times = chirp_times(who.sound(), EAR_RATE)[: len(sounding)] / FRAME_SECONDS
    index = np.flatnonzero(sounding & np.isfinite(times))
    heard = times[index]
    # A frame with a leap in it tells no time of its own: the middle one of three.
    leaps = np.diff(np.median(sliding_window_view(heard - index, 3), axis=1))
    # The first whole frame lies up to one and a half behind the beginning, the last alike.
    ends = np.array([heard[0], seconds / FRAME_SECONDS - heard[-1]]) - 1.5
    return float(leaps[leaps > MEASURED_WITHIN].sum() + ends[ends > 0].sum())


def frames_silent(who: Caller) -> float:
    """How much silence this person heard between the first and the last sound."""
    index = np.flatnonzero(audible(who))
    return float(index[-1] - index[0] + 1 - len(index)) / PIECES_A_FRAME


def audible(who: Caller) -> NDArray[np.bool_]:
    """Of each piece of 10 ms of the whole frames heard, whether there is sound in it."""
    size = PIECES_A_FRAME * PIECE_SAMPLES
    sound = who.sound()
    pieces = sound[: len(sound) // size * size].reshape(-1, PIECE_SAMPLES)
    return np.asarray(np.abs(pieces).max(axis=1) >= AUDIBLE_PEAK)
