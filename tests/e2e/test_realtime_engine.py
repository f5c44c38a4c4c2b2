"""The wire around the real engine at its smallest: what goes in, once, whole, and counted."""

from __future__ import annotations

import asyncio
import base64
import threading
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model import FRAME_SAMPLES
from model.voices import Voice, VoiceCatalogue
from tests.conftest import SEED
from tests.e2e.realtime import server_with
from tests.fakes.server import Client, until_free

pytestmark = pytest.mark.e2e

DUPLEX = "/v1/duplex?autostart=0"
STOCK = "/v1/realtime?model=demo"
CALLS = 8
AHEAD = 20
"""Frames sent before their answers are read; 25 may wait."""
TEN_SECONDS = 125


def noise(frames: int) -> np.ndarray:
    """Loud for the whole time."""
    drawn = np.random.default_rng(SEED).standard_normal(frames * FRAME_SAMPLES)
    return (0.2 * drawn).astype(np.float32)


async def opened(client: Client, **session: Any) -> None:
    await client.send("session.update", session=session)
    await client.until("session.updated")


async def said(client: Client, frames: int) -> tuple[bytes, str]:
    """Sound and words of so many frames."""
    sound = b""
    for _ in range(frames):
        delta = await client.until("response.output_audio.delta")
        sound += base64.b64decode(delta["delta"])
    await client.until("response.output_audio_transcript.delta")
    words = [event["delta"] for event in client.all("response.output_audio_transcript.delta")]
    return sound, "".join(words)


async def test_racing_opens_of_one_pair_read_and_prefill_it_once(
    tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # contract: B7
    readers: list[int] = []
    read = VoiceCatalogue.read

    def recorded(catalogue: VoiceCatalogue, name: str) -> Voice:
        readers.append(threading.get_ident())
        return read(catalogue, name)

    monkeypatch.setattr(VoiceCatalogue, "read", recorded)
    async with server_with("real", tiny_checkpoint, max_sessions=CALLS) as server:
        before = server.manager.engine.stats()
        readers.clear()
        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(server.connect(DUPLEX)) for _ in range(CALLS)
            ]
            voice = server.manager.default_spec.voice
            opens = (opened(client, voice=voice, instructions="Be brief.") for client in clients)
            await asyncio.gather(*opens)
            stats = server.manager.engine.stats()
            assert stats.used == CALLS
            assert stats.prefills - before.prefills == 1
            assert stats.voice_reads - before.voice_reads == len(readers) <= 1
            assert threading.get_ident() not in readers, "reading is off every event loop"


async def test_tiny_chunks_give_the_sound_of_whole_frames(
    tiny_checkpoint: Path,
) -> None:  # contract: C2
    sound, answers = noise(12), []
    async with server_with("real", tiny_checkpoint) as server:
        for chunk in (FRAME_SAMPLES, 37):
            async with server.connect(DUPLEX) as client:
                await opened(client)
                for start in range(0, sound.size, chunk):
                    await client.append(sound[start : start + chunk])
                answers.append(await said(client, 12))
            await until_free(server)
    assert answers[0] == answers[1]
    assert np.abs(np.frombuffer(answers[0][0], "<i2")).max() > 0


async def test_what_is_no_audio_is_never_stepped(tiny_checkpoint: Path) -> None:  # contract: C1
    nan = base64.b64encode(np.full(1920, np.nan, "<f4").tobytes()).decode()
    good = base64.b64encode(bytes(3840)).decode()
    bad: list[dict[str, Any]] = [
        {"audio": "***"},
        {"audio": base64.b64encode(bytes(3841)).decode()},
        {"audio": nan, "format": "pcm_f32le"},
        {"audio": good, "sample_rate_hz": 7_999},
        {"audio": good, "sample_rate_hz": 192_001},
        {"audio": good, "format": "opus"},
    ]
    async with server_with("real", tiny_checkpoint) as server, server.connect(DUPLEX) as client:
        await opened(client)
        before = server.manager.engine.stats()
        for fields in bad:
            await client.send("input_audio_buffer.append", **fields)
            await client.until("error")
        await client.send("input_audio_buffer.append", audio=good)
        await client.until("response.output_audio.delta")
        await client.send("input_audio_buffer.append", audio=good, sample_rate_hz=48_000)
        await client.until("error")
        await client.send("input_audio_buffer.append", audio=good)
        await client.until("response.output_audio.delta")
        stats = server.manager.engine.stats()
        assert (stats.encoded - before.encoded, stats.frames - before.frames) == (2, 2)


async def test_ten_seconds_of_talking_over_it_lose_no_frame(
    tiny_checkpoint: Path,
) -> None:  # contract: C6 E4
    async with server_with("real", tiny_checkpoint) as server, server.connect(DUPLEX) as client:
        await opened(client)
        sound = noise(TEN_SECONDS)
        for start in range(0, TEN_SECONDS, AHEAD):
            frames = min(AHEAD, TEN_SECONDS - start)
            part = sound[start * FRAME_SAMPLES :][: frames * FRAME_SAMPLES]
            await client.append(part)
            await said(client, frames)
        deltas = client.all("response.output_audio.delta")
        assert len(deltas) == TEN_SECONDS and not client.all("response.done")
        assert len({delta["response_id"] for delta in deltas}) == 1
        counters = server.manager.sessions[0].counters
        assert (counters.stepped, counters.epochs, counters.holds) == (TEN_SECONDS, 1, 0)


async def test_ten_seconds_of_talking_in_stock_mood_cancel_nothing(
    tiny_checkpoint: Path,
) -> None:  # contract: E4
    async with server_with("real", tiny_checkpoint) as server, server.connect(STOCK) as client:
        await client.until("session.updated")
        vad = {"type": "server_vad", "interrupt_response": True}
        await opened(client, turn_detection=vad)
        await client.append(noise(TEN_SECONDS))
        await client.until("input_audio_buffer.speech_started")
        session = server.manager.sessions[0]
        async with asyncio.timeout(60):
            while session.counters.stepped < TEN_SECONDS:
                await client.send("session.heartbeat")
                await client.until("session.heartbeat_ack")
        assert (session.epoch, session.holding, session.counters.holds) == (0, False, 0)
        statuses = {event["response"]["status"] for event in client.all("response.done")}
        assert statuses <= {"completed"}
