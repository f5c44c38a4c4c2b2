"""An `AgentSession` without a room: a microphone, a loudspeaker and captions around a model."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from livekit import rtc
from livekit.agents import Agent, AgentSession
from livekit.agents.voice.io import AudioInput, AudioOutput, AudioOutputCapabilities, TextOutput

from model.core import FRAME_SAMPLES
from tests.e2e.asking import LOUD
from tests.e2e.caller import Sound
from tests.e2e.patience import within
from tests.e2e.realtime import pcm16

RATE = 24_000
CHUNK = RATE // 20
PATIENCE_LOOKS = 1200
PERSONA = "You are a wise and friendly teacher."


class Microphone(AudioInput):
    """Silence at the pace of time, and in it what is said."""

    def __init__(self) -> None:
        super().__init__(label="microphone")
        self._waiting = np.zeros(0, np.float32)
        self._sent = 0
        self._due = time.monotonic()

    def say(self, sound: Sound) -> None:
        """Speak next, from the beginning of a frame on: it is heard alike in every run."""
        gap = -(self._sent + self._waiting.size) % FRAME_SAMPLES
        self._waiting = np.concatenate([self._waiting, np.zeros(gap, np.float32), sound])

    async def __anext__(self) -> rtc.AudioFrame:
        self._due += CHUNK / RATE
        await asyncio.sleep(max(0.0, self._due - time.monotonic()))
        part, self._waiting = self._waiting[:CHUNK], self._waiting[CHUNK:]
        self._sent += CHUNK
        padded = np.concatenate([part, np.zeros(CHUNK - part.size, np.float32)])
        return rtc.AudioFrame(pcm16(padded), RATE, 1, CHUNK)


class Loudspeaker(AudioOutput):
    """Plays at once and keeps what it played."""

    def __init__(self) -> None:
        super().__init__(
            label="loudspeaker",
            capabilities=AudioOutputCapabilities(pause=False),
            sample_rate=RATE,
        )
        self.heard = asyncio.Event()
        self.loud_at = time.monotonic()
        self.samples = 0
        self._pieces: list[Sound] = []
        self._position = 0.0

    def sound(self) -> Sound:
        """All that was played, a second of silence between two turns."""
        return np.concatenate(self._pieces) if self._pieces else np.zeros(0, np.float32)

    async def capture_frame(self, frame: rtc.AudioFrame) -> None:
        await super().capture_frame(frame)
        piece = np.frombuffer(frame.data, np.int16).astype(np.float32) / 32768
        self._pieces.append(piece)
        self.samples += piece.size
        if np.sqrt(np.mean(np.square(piece))) > LOUD:
            self.loud_at = time.monotonic()
        self._position += frame.duration
        self.heard.set()

    def flush(self) -> None:
        super().flush()
        self._pieces.append(np.zeros(RATE, np.float32))
        self._finish(interrupted=False)

    def clear_buffer(self) -> None:
        self._finish(interrupted=True)

    def _finish(self, *, interrupted: bool) -> None:
        position, self._position = self._position, 0.0
        if position:
            self.on_playback_finished(playback_position=position, interrupted=interrupted)


class Captions(TextOutput):
    """The agent's words as they come."""

    def __init__(self) -> None:
        super().__init__(label="captions", next_in_chain=None)
        self.text = ""

    async def capture_text(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        self.text += " "


@dataclass
class Talk:
    """One conversation and what can be seen of it."""

    session: AgentSession[None]
    microphone: Microphone
    loudspeaker: Loudspeaker
    captions: Captions

    async def until(self, what: str, true: Callable[[], bool]) -> None:
        """Wait for a condition that comes true with time."""
        for _ in range(PATIENCE_LOOKS):
            if true():
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"waited in vain for {what}; said {self.captions.text!r}")

    async def until_said(self, line: str, quiet_s: float = 2.0) -> None:
        """Until the captions end with the line, and nothing was to be heard for a while."""

        def said() -> bool:
            return " ".join(self.captions.text.split()).endswith(line)

        await self.until(line, said)
        await self.until("quiet", lambda: time.monotonic() - self.loudspeaker.loud_at > quiet_s)


async def close_model_session(session: AgentSession[None]) -> None:
    """Nothing to do where the session has closed itself after an error."""
    try:
        running = session.current_agent.realtime_llm_session
    except RuntimeError:
        return
    await running.aclose()


@asynccontextmanager
async def talking(model: Any, instructions: str = PERSONA) -> AsyncIterator[Talk]:
    session: AgentSession[None] = AgentSession(llm=model)
    talk = Talk(session, Microphone(), Loudspeaker(), Captions())
    session.input.audio = talk.microphone
    session.output.audio = talk.loudspeaker
    session.output.transcription = talk.captions
    async with within("the session to start"):
        await session.start(Agent(instructions=instructions), record=False)
    try:
        yield talk
    finally:
        # Before the session: sound that comes while it closes begins a response that it then waits
        # for, without an end.
        async with within("the model's session to close"):
            await close_model_session(session)
        async with within("the session to close"):
            await session.aclose()
        async with within("the model to close"):
            await model.aclose()
        # Tasks of the framework that failed unread log a traceback when they are collected. Inside
        # an import that kills the run: Python 3.11 cannot parse one source while parsing another.
        gc.collect()
