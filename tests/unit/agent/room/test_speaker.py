"""The agent's voice: order, a bounded queue, and text that is never lost."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from livekit import rtc

from agent.speaker import QUEUE_FRAMES, Speaker
from model import FRAME_SAMPLES
from tests.fakes.clock import run

pytestmark = pytest.mark.unit


class Source:
    """A source that takes `seconds` for a frame."""

    def __init__(self, seconds: float = 0.0, fail: bool = False) -> None:
        self.taken: list[int] = []
        self.cleared = 0
        self._seconds = seconds
        self._fail = fail

    async def capture_frame(self, frame: rtc.AudioFrame) -> None:
        await asyncio.sleep(self._seconds)
        if self._fail:
            raise RuntimeError("InvalidState")
        self.taken.append(int(frame.data[0]))

    def clear_queue(self) -> None:
        self.cleared += 1


def pcm(number: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.full(FRAME_SAMPLES, number / 32767, np.float32)


async def settle(speaker: Speaker, seconds: float) -> None:
    task = asyncio.ensure_future(speaker.run())
    await asyncio.sleep(seconds)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_frames_go_out_in_order_each_followed_by_its_text() -> None:
    async def main() -> None:
        source, said = Source(0.01), []
        speaker = Speaker(source)
        for number in range(3):
            speaker.play(pcm(number), lambda n=number: said.append((n, len(source.taken))))
        await settle(speaker, 1)
        assert source.taken == [0, 1, 2]
        assert said == [(0, 1), (1, 2), (2, 3)]
        assert speaker.counters.captured == 3

    run(main())


# contract: D1, H3
def test_an_overflow_drops_the_sound_and_counts_it_but_keeps_the_text() -> None:
    async def main() -> None:
        source, said = Source(), []
        speaker = Speaker(source)
        for number in range(QUEUE_FRAMES + 2):
            speaker.play(pcm(number), lambda n=number: said.append(n))
        await settle(speaker, 1)
        assert len(source.taken) == QUEUE_FRAMES
        assert said == list(range(QUEUE_FRAMES + 2))
        assert speaker.counters.dropped == 2

    run(main())


# contract: E2
def test_clear_empties_both_queues() -> None:
    async def main() -> None:
        source, said = Source(), []
        speaker = Speaker(source)
        speaker.play(pcm(1), lambda: said.append(1))
        speaker.clear()
        await settle(speaker, 1)
        assert (source.taken, source.cleared, said) == ([], 1, [1])
        assert (speaker.counters.cleared, speaker.counters.unplayed) == (1, 0)

    run(main())


def test_a_frame_that_the_source_refuses_is_counted() -> None:
    async def main() -> None:
        speaker = Speaker(Source(fail=True))
        speaker.play(pcm(1), lambda: None)
        speaker.play(pcm(2), lambda: None)
        await settle(speaker, 1)
        assert (speaker.counters.captured, speaker.counters.failed) == (0, 2)

    run(main())
