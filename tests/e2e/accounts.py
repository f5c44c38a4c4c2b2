"""The account that the worker gives of a call: where each of its frames is, stage by stage."""

from __future__ import annotations

from typing import Any

Account = dict[str, Any]
CONCEALED_A_FRAME = 3840
"""WebRTC counts samples at 48 kHz."""
MOST_WAITING = 3
"""Two frames may wait in a room's session, and one is with the engine."""


def chain(account: Account) -> dict[str, int]:
    """Frames per stage from the audio streams to the agent's track, losses named."""
    hearing, frames, speaker = account["hearing"], account["frames"], account["speaker"]
    return {
        "came": hearing["frames_in"] - hearing["mixed"],
        "discarded": hearing["discarded"],
        "clocked": hearing["clocked"],
        "unused": account["unused"],
        "accepted": frames["accepted"],
        "dropped": frames["dropped_overflow"] + frames["dropped_cancel"] + frames["dropped_close"],
        "submitted": frames["submitted"],
        "stepped": frames["stepped"],
        "emitted": frames["emitted"],
        "unheard": sum(speaker[key] for key in ("dropped", "cleared", "failed", "unplayed")),
        "captured": speaker["captured"],
    }


def check_chain(account: Account) -> None:
    """Of a call that is over: no frame is missing and none is counted twice."""
    n = chain(account)
    print("frames:", n)
    accepted = n["came"] - n["discarded"] + n["clocked"] - n["unused"]
    assert accepted == n["accepted"], n
    assert accepted - n["dropped"] == n["stepped"] == n["emitted"], n
    assert n["captured"] + n["unheard"] == n["emitted"], n
    # What the engine held when the call ended was submitted, and counts as dropped.
    assert 0 <= n["submitted"] - n["stepped"] <= n["dropped"], n


def waiting(account: Account) -> int:
    """Of a call that goes on: frames on their way through the engine."""
    n = chain(account)
    return n["accepted"] - n["dropped"] - n["stepped"]


def concealed_frames(account: Account) -> float:
    """Sound that came too late or never, and that WebRTC made up; of a call that goes on."""
    return sum(media["concealed_samples"] for media in account["media"]) / CONCEALED_A_FRAME
