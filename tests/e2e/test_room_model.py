"""The real engine in a room: a frame out for a frame in, the same words on both text channels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.e2e.caller import Caller
from tests.e2e.conftest import WorkerFactory
from tests.e2e.processes import LiveKitServer
from tests.e2e.sounds import tone

pytestmark = pytest.mark.e2e


# contract: C6, D1, H5
async def test_a_frame_out_for_a_frame_in_and_the_same_words(
    livekit: LiveKitServer,
    start_worker: WorkerFactory,
    checkpoint: Callable[[str], Path],
    room_name: str,
) -> None:
    worker = await start_worker("--model", str(checkpoint("tiny")), echo=False)
    async with Caller(livekit.url, room_name) as who:
        await who.until_agent()
        await who.say(tone(440, 5))
        await who.until("some words", lambda: any(m["text"].strip() for m in words(who)))
        account = await who.stats()
        # A soft cancel closes the utterance, so that its transcript becomes final.
        await who.rpc("cancel")
        await who.until("a final transcript", lambda: who.segments and finals(who))
        sound = who.sound()
    frames = account["frames"]
    waiting = frames["accepted"] - frames["dropped_overflow"] - frames["stepped"]
    assert 0 <= waiting <= 3
    assert np.isfinite(sound).all() and sound.std() > 0
    spoken = {segment.id: segment.text for segment in who.segments}
    written = finals(who)
    assert spoken == {key: text for key, text in written.items() if key in spoken}
    for key, text in written.items():
        assert text == "".join(m["text"] for m in words(who) if m["segment"] == key)
    ended = await worker.ended(account["session"])
    assert ended["frames"]["stepped"] + ended["frames"]["dropped_close"] == (
        ended["frames"]["accepted"] - ended["frames"]["dropped_overflow"]
    )
    print("words:", spoken, "counters:", ended)


def words(who: Caller) -> list[dict[str, str]]:
    return [m for m in who.of_type("transcript") if not m["final"]]


def finals(who: Caller) -> dict[str, str]:
    return {m["segment"]: m["text"] for m in who.of_type("transcript") if m["final"]}
