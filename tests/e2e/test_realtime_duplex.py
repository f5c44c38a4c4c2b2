"""Duplex clients against the server: the published wheel's, unmodified, and our own two."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from agent import client as own
from tests.e2e.duplex_client import CLIENTS, make
from tests.e2e.realtime import ENGINES, frames_of, published, question, server_with

pytestmark = pytest.mark.e2e

FRAMES = 30


async def converse(client: Any) -> tuple[bytes, str]:
    """Stream a question and silence as a microphone would; the audio and words that came back."""
    sound = question(seconds=1.2, silence_s=FRAMES * 0.08 - 1.2)
    audio, words = b"", ""
    streaming = asyncio.create_task(client.stream_pcm(sound.tobytes(), chunk_ms=100))
    async with asyncio.timeout(60):
        async for response in client.responses():
            async for chunk in response.audio():
                audio += chunk
                if frames_of(audio) >= FRAMES:
                    break
            words = response.transcript
            break
        await streaming
    return audio, words


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", CLIENTS)
async def test_one_frame_comes_back_for_each_that_goes_in(
    kind: str, engine: str, tiny_checkpoint: Path
) -> None:  # contract: C6
    async with server_with(engine, tiny_checkpoint) as server:
        async with make(kind, server) as client:
            assert client.session_id.startswith("duplex-")
            assert client.session_info["capabilities"]["implementation_level"] == (
                "model_native_duplex"
            )
            audio, words = await converse(client)
            assert frames_of(audio) == FRAMES
            if engine == "scripted":
                assert words.startswith(" The sky")
        assert server.manager.used == 0
        totals = server.manager.totals()
        assert totals.accepted == totals.stepped == totals.emitted == FRAMES
        assert totals.clocked == 0


@pytest.mark.parametrize("kind", CLIENTS)
async def test_cancel_and_playback(kind: str, tiny_checkpoint: Path) -> None:  # contract: E1 E5
    async with server_with("scripted", tiny_checkpoint) as server, make(kind, server) as client:
        await client.append_audio(question().tobytes())
        first = await client.wait_for("response.output_audio.delta", timeout_s=20)
        await client.ack_playback(80, response_id=first.response_id)
        await client.wait_for("playback.acknowledged", timeout_s=20)
        await client.cancel_response()
        done = await client.wait_for("response.done", timeout_s=20)
        assert done.response_id == first.response_id
        await client.append_audio(question().tobytes())
        second = await client.wait_for("response.created", timeout_s=20)
        assert second.response_id != first.response_id


@pytest.mark.parametrize("kind", CLIENTS)
async def test_refusals_reach_the_caller(kind: str, tiny_checkpoint: Path) -> None:  # contract: A2
    async with server_with("scripted", tiny_checkpoint) as server, AsyncExitStack() as stack:
        for _ in range(2):
            await stack.enter_async_context(make(kind, server))
        with pytest.raises(Exception, match="slots are in use") as refused:
            await stack.enter_async_context(make(kind, server))
        assert getattr(refused.value, "code", "") == "resource_exhausted"


@pytest.mark.parametrize("arguments", [{}, {"voice": "NATM1.pt", "persona": "A pirate."}])
def test_the_preset_equals_the_published_one(arguments: dict[str, str]) -> None:
    theirs = published("clients.personaplex").create_duplex_session_config(**arguments)
    ours = own.create_duplex_session_config(**arguments)
    assert asdict(ours) == asdict(theirs)
    assert ours.to_session_payload(model="m") == theirs.to_session_payload(model="m")
