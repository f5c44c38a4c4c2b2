"""The account that the worker gives of a call: where each of its frames is, stage by stage."""

from __future__ import annotations

from typing import Any

from agent.speaker import QUEUE_FRAMES

Account = dict[str, Any]
CONCEALED_A_FRAME = 3840
"""WebRTC counts samples at 48 kHz."""
MOST_WAITING = 3
"""Two frames may wait in a room's session, and one is with the engine."""
AT_THE_ENGINE = IN_CAPTURE = 1
"""A room hands frames to the engine, and a speaker to its source, one at a time."""


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


def check_loss(account: Account) -> None:
    """Of a call that is over: what was lost, and what each frame was lost to.

    A queue that was full and counted it, a cancel, or the end of the call; these two find no more
    frames under way than there are places for them. None was refused, taken back or stale.
    """
    frames, speaker = account["frames"], account["speaker"]
    hard = frames["epochs"] - 1
    print(
        f"overflowed: {frames['dropped_overflow']} before the engine, {speaker['dropped']} behind; "
        f"under way at the end: {frames['dropped_close']} before, "
        f"{speaker['failed']} in capture, {speaker['unplayed']} not yet; "
        f"cancelled: {speaker['cleared']} behind the engine, {frames['dropped_cancel']} in it"
    )
    assert frames["dropped_close"] <= MOST_WAITING
    assert frames["submitted"] - frames["stepped"] <= AT_THE_ENGINE
    assert speaker["failed"] <= IN_CAPTURE
    assert speaker["unplayed"] <= QUEUE_FRAMES
    assert speaker["cleared"] <= (hard + frames["holds"]) * QUEUE_FRAMES
    assert frames["dropped_cancel"] <= hard * AT_THE_ENGINE
    assert not any(frames[key] for key in ("rolled_back", "refused", "stale")), account


def check_under_way(account: Account) -> None:
    """Of a call that goes on: no frame is between two stages but those that have a place there."""
    n = chain(account)
    assert 0 <= waiting(account) <= MOST_WAITING, n
    assert 0 <= n["submitted"] - n["stepped"] <= AT_THE_ENGINE, n
    assert 0 <= n["emitted"] - n["captured"] - n["unheard"] <= IN_CAPTURE, n
    assert n["stepped"] == n["emitted"] and not account["speaker"]["failed"], n


def waiting(account: Account) -> int:
    """Of a call that goes on: frames on their way through the engine."""
    n = chain(account)
    return n["accepted"] - n["dropped"] - n["stepped"]


def concealed_frames(account: Account) -> float:
    """Sound that came too late or never, and that WebRTC made up; of a call that goes on."""
    return _media(account, "concealed_samples")


def delayed_frames(account: Account) -> float:
    """What WebRTC put before sound, which is heard later by as much: made up, or stretched."""
    made_up = _media(account, "concealed_samples") - _media(account, "silent_concealed_samples")
    return made_up + _media(account, "inserted_samples")


def hastened_frames(account: Account) -> float:
    """What WebRTC took out of sound, so that the rest is heard sooner by as much."""
    return _media(account, "removed_samples")


def _media(account: Account, kind: str) -> float:
    """In frames, of all tracks."""
    return sum(media[kind] for media in account["media"]) / CONCEALED_A_FRAME
