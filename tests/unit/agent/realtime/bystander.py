"""Somebody on the same server who does nothing wrong, and who would hear if a frame went amiss.

Every frame is a number, and the agent answers each with the same number as its sound.
"""

from __future__ import annotations

import asyncio
import base64

import numpy as np

from model import FRAME_SAMPLES, FRAME_SECONDS, Pcm
from tests.fakes.engine import Said
from tests.fakes.server import PATIENCE_S, Client

FULL_SCALE = 32_768
"""Of pcm16, and one more than the numbers that there are."""


def repeat_number(epoch: int, seq: int, pcm: Pcm) -> Said:
    """A script: as loud as what was heard is what is said."""
    return Said(" w", 100, float(np.abs(pcm).max()))


class Bystander:
    """Sends at the pace of a microphone, whatever comes back and whenever."""

    def __init__(self, client: Client) -> None:
        self.sent = 0
        self.heard: list[int] = []
        """The number of every frame that came, in the order in which they came."""
        self._client = client
        self._stop = asyncio.Event()
        self._reading = asyncio.create_task(self._read())
        self._talking = asyncio.create_task(self._talk())

    async def finish(self) -> None:
        """Say no more, wait for what is still to come, and see that nothing more does."""
        self._stop.set()
        await self._talking
        # Half of what the reader waits for one event, which is to be the answer to what follows.
        for _ in range(int(PATIENCE_S / 2 / FRAME_SECONDS)):
            if len(self.heard) >= self.sent or self._reading.done():
                break
            await asyncio.sleep(FRAME_SECONDS)
        await self._client.send("session.heartbeat")
        await self._reading

    async def _talk(self) -> None:
        while not self._stop.is_set():
            self.sent += 1
            await self._client.append(np.full(FRAME_SAMPLES, self.sent / FULL_SCALE, np.float32))
            # Never faster: what a busy machine held up is not sent in a burst.
            await asyncio.sleep(FRAME_SECONDS)

    async def _read(self) -> None:
        while (event := await self._client.event()) is not None:
            self._client.seen.clear()
            assert event["type"] != "error", event
            if event["type"] == "session.heartbeat_ack":
                return
            if event["type"] == "response.output_audio.delta":
                self.heard.append(_number(event["delta"]))
        raise AssertionError("the bystander's session ended")


def _number(delta: str) -> int:
    """What a whole frame of sound says; -1 where it is of several numbers."""
    loudness = np.unique(np.abs(np.frombuffer(base64.b64decode(delta), "<i2").astype(int)))
    return int(loudness[0]) if loudness.size == 1 else -1
