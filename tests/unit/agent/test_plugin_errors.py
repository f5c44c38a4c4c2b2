"""Which errors of a server end an `AgentSession` with the plugin, and which it lives through."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from livekit import rtc
from livekit.agents import llm
from livekit.plugins import personaplex

from tests.fakes.realtime_server import Event, Script, serve, tone_frame

pytestmark = pytest.mark.unit

PATIENCE_S = 30.0
REFUSED: Event = {"type": "error", "error": {"code": "input_backpressure", "message": "wait"}}
CLOSED: Event = {"type": "session.closed", "reason": "engine_fault"}


async def errors_of(script: Script, frames: int) -> list[llm.RealtimeModelError]:
    """What is reported while so many frames are said and their answers heard."""
    errors: list[llm.RealtimeModelError] = []
    with serve(script) as server:
        session = personaplex.DuplexModel(url=server.url).session()
        session.on("error", errors.append)
        connected = asyncio.Event()
        session.on("metrics_collected", lambda _: connected.set())
        await session._update_session(instructions="Be kind.")
        async with asyncio.timeout(PATIENCE_S):
            await connected.wait()
            for _ in range(frames):
                session.push_audio(rtc.AudioFrame(tone_frame(), 24_000, 1, 1920))
            heard = [frame async for frame in limited(session, frames)]
            await session.aclose()
    assert all(frame.frame.samples_per_channel == 1920 for frame in heard)
    return errors


async def limited(
    session: personaplex.DuplexSession, frames: int
) -> AsyncIterator[llm.DuplexAudioFrame]:
    async for frame in session.audio_stream:
        yield frame
        frames -= 1
        if not frames:
            return


@pytest.mark.parametrize(
    ("event", "code", "lived_through"),
    [
        pytest.param(REFUSED, "input_backpressure", True, id="a refused piece of sound"),
        pytest.param(CLOSED, "engine_fault", False, id="a session that the server closes"),
    ],
)
async def test_the_call_ends_only_with_the_session(
    event: Event, code: str, lived_through: bool
) -> None:
    def at_the_second(delta: Event, number: int, session: int) -> list[Event]:
        return [delta, event] if number == 2 else [delta]

    errors = await errors_of(Script(edit=at_the_second), 4)
    assert [(error.recoverable, code in str(error.error)) for error in errors] == [
        (lived_through, True)
    ]
