"""LiveKit's own plugins against the server, unmodified, inside an `AgentSession` without a room."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest
from livekit import rtc
from livekit.agents import Agent, AgentSession
from livekit.agents.voice.io import AudioInput, AudioOutput, AudioOutputCapabilities
from livekit.plugins import openai
from livekit.plugins.nvidia.experimental import realtime as nvidia

from tests.e2e.realtime import ENGINES, pcm16, question, server_with
from tests.fakes.answering import ANSWER
from tests.fakes.server import Server

pytestmark = pytest.mark.e2e

RATE = 24_000
FRAME = RATE // 20


class Microphone(AudioInput):
    """Silence at the pace of time, and in it what is said."""

    def __init__(self) -> None:
        super().__init__(label="microphone")
        self._waiting = np.zeros(0, np.float32)
        self._due = time.monotonic()

    def say(self, sound: np.ndarray) -> None:
        self._waiting = np.concatenate([self._waiting, sound])

    async def __anext__(self) -> rtc.AudioFrame:
        self._due += FRAME / RATE
        await asyncio.sleep(max(0.0, self._due - time.monotonic()))
        part, self._waiting = self._waiting[:FRAME], self._waiting[FRAME:]
        padded = np.concatenate([part, np.zeros(FRAME - part.size, np.float32)])
        return rtc.AudioFrame(pcm16(padded), RATE, 1, FRAME)


class Loudspeaker(AudioOutput):
    """Plays at once and keeps count."""

    def __init__(self) -> None:
        super().__init__(
            label="loudspeaker",
            capabilities=AudioOutputCapabilities(pause=False),
            sample_rate=RATE,
        )
        self.samples = 0
        self.heard = asyncio.Event()
        self._position = 0.0

    async def capture_frame(self, frame: rtc.AudioFrame) -> None:
        await super().capture_frame(frame)
        self.samples += frame.samples_per_channel
        self._position += frame.duration
        self.heard.set()

    def flush(self) -> None:
        super().flush()
        self._finish(interrupted=False)

    def clear_buffer(self) -> None:
        self._finish(interrupted=True)

    def _finish(self, *, interrupted: bool) -> None:
        position, self._position = self._position, 0.0
        if position:
            self.on_playback_finished(playback_position=position, interrupted=interrupted)


@asynccontextmanager
async def talking(model: Any) -> AsyncIterator[tuple[AgentSession[None], Microphone, Loudspeaker]]:
    session: AgentSession[None] = AgentSession(llm=model)
    microphone, loudspeaker = Microphone(), Loudspeaker()
    session.input.audio = microphone
    session.output.audio = loudspeaker
    await session.start(Agent(instructions="You are a wise and friendly teacher."), record=False)
    try:
        yield session, microphone, loudspeaker
    finally:
        await session.aclose()
        await model.aclose()


async def until_free(server: Server) -> None:
    for _ in range(1000):
        if server.manager.used == 0:
            return
        await asyncio.sleep(0.02)
    raise AssertionError("a slot was not given back")


def words_of(session: AgentSession[None]) -> str:
    said = [item for item in session.history.items if getattr(item, "role", "") == "assistant"]
    return " ".join(item.text_content or "" for item in said if item.type == "message")


async def test_the_openai_plugin_hears_an_answer(tiny_checkpoint: Path) -> None:  # contract: F2
    async with server_with("scripted", tiny_checkpoint) as server:
        model = openai.realtime.RealtimeModel(base_url=server.url + "/v1", api_key="any")
        async with talking(model) as (session, microphone, loudspeaker):
            spoken = asyncio.Event()
            session.on("conversation_item_added", lambda event: spoken.set())
            await asyncio.sleep(0.3)
            microphone.say(question(seconds=1.2, silence_s=0.0))
            await asyncio.wait_for(spoken.wait(), 60)
            assert "".join(ANSWER).strip() in words_of(session)
            assert loudspeaker.samples >= 2 * len(ANSWER) * 1920
            assert len(server.manager.sessions) == 1
            assert server.manager.sessions[0].spec.persona.startswith("You are a wise")
        await until_free(server)


@pytest.mark.parametrize("engine", ENGINES)
async def test_the_openai_plugin_gets_a_reply_it_asks_for(
    engine: str, tiny_checkpoint: Path
) -> None:  # contract: F4
    async with server_with(engine, tiny_checkpoint) as server:
        model = openai.realtime.RealtimeModel(base_url=server.url + "/v1", api_key="any")
        async with talking(model) as (session, _, loudspeaker):
            speech = session.generate_reply(instructions="Greet the caller.")
            await asyncio.wait_for(loudspeaker.heard.wait(), 60)
            await asyncio.wait_for(speech.interrupt(), 60)
        await until_free(server)


@pytest.mark.parametrize("engine", ENGINES)
async def test_the_nvidia_plugin_talks(engine: str, tiny_checkpoint: Path) -> None:
    async with server_with(engine, tiny_checkpoint) as server, aiohttp.ClientSession() as http:
        model = nvidia.RealtimeModel(base_url=server.ws, seed=7, http_session=http)
        async with talking(model) as (session, microphone, loudspeaker):
            microphone.say(question(seconds=1.2, silence_s=0.0))
            for _ in range(600):
                if loudspeaker.samples >= 40 * 1920:
                    break
                await asyncio.sleep(0.1)
            assert loudspeaker.samples >= 40 * 1920
            totals = server.manager.totals()
            assert totals.stepped == totals.emitted > 0
        await until_free(server)
