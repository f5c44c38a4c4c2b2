"""The clients of the duplex mood: the published wheel's, unmodified, and the project's own two."""

from __future__ import annotations

import asyncio
from typing import Any

from agent import client as own
from tests.e2e.caller import Sound
from tests.e2e.realtime import published
from tests.fakes.server import Server

CLIENTS = ("published", "own", "inline")
FRAME_BYTES = 3840
AHEAD = 12
"""Frames that are sent before their answers have come: no clock, so the same in every run."""
PATIENCE_S = 120.0


def make(kind: str, server: Server) -> Any:
    voice = server.manager.default_spec.voice
    if kind == "published":
        duplex = published("clients.duplex")
        preset = published("clients.personaplex").create_duplex_session_config(voice=voice)
        return duplex.DuplexClient(server.ws + "/v1/duplex", model="demo", config=preset)
    config = own.create_duplex_session_config(voice=voice)
    if kind == "own":
        return own.DuplexClient(server.ws, model="demo", config=config)
    return own.InlineDuplexClient(server.manager, model="demo", config=config)


async def converse(client: Any, sound: Sound) -> tuple[bytes, str]:
    """Stream whole frames, each as soon as earlier ones were answered; what came back."""
    frames = sound.reshape(-1, 1920)
    credit = asyncio.Semaphore(AHEAD)

    async def speak() -> None:
        for frame in frames:
            await credit.acquire()
            await client.append_audio(frame.tobytes())

    audio, speaking = b"", asyncio.create_task(speak())
    async with asyncio.timeout(PATIENCE_S):
        response = await anext(client.responses())
        async for chunk in response.audio():
            audio += chunk
            credit.release()
            if len(audio) >= len(frames) * FRAME_BYTES:
                break
        await speaking
    return audio, response.transcript
