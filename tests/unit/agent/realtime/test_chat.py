"""`/api/chat`: the moshi protocol over a real socket, with real Opus."""

from __future__ import annotations

import asyncio
from urllib.parse import quote

import numpy as np
import pytest
import sphn
from aiohttp import ClientWebSocketResponse, WSMsgType

from agent.http import HttpOptions
from agent.realtime.moshi import SLICE_BYTES
from model import FRAME_SAMPLES, Sampling
from tests.fakes.engine import FakeEngine
from tests.fakes.server import PATIENCE_S, serving

pytestmark = pytest.mark.unit


def path(**query: str) -> str:
    pairs = {"voice_prompt": "NATM1.pt", "text_prompt": "A pirate."} | query
    return "/api/chat?" + "&".join(f"{key}={quote(value)}" for key, value in pairs.items())


class Chat:
    """A client of the protocol."""

    def __init__(self, socket: ClientWebSocketResponse) -> None:
        self.socket = socket
        self.writer = sphn.OpusStreamWriter(24000)
        self.reader = sphn.OpusStreamReader(24000)
        self.sound = np.zeros(0, np.float32)
        self.words = ""
        self.kinds: list[int] = []

    async def say(self, frames: int) -> None:
        for _ in range(frames):
            data = self.writer.append_pcm(np.zeros(FRAME_SAMPLES, np.float32))
            await self.socket.send_bytes(b"\x01" + data)

    async def message(self) -> bytes | None:
        async with asyncio.timeout(PATIENCE_S):
            message = await self.socket.receive()
        if message.type is not WSMsgType.BINARY:
            return None
        data: bytes = message.data
        self.kinds.append(data[0])
        if data[0] == 1:
            self.sound = np.concatenate([self.sound, self.reader.append_bytes(data[1:])])
        elif data[0] == 2:
            self.words += data[1:].decode()
        return data

    async def until_frames(self, count: int) -> None:
        while self.sound.size < count * FRAME_SAMPLES:
            assert await self.message() is not None


async def test_each_frame_is_answered_after_the_handshake() -> None:  # contract: C6
    engine = FakeEngine(prefill_s=0.2)
    async with serving(engine) as server, server.http.ws_connect(server.ws + path()) as socket:
        chat = Chat(socket)
        await chat.say(10)  # before the handshake: kept, not lost
        assert await chat.message() == b"\x00"
        await chat.say(20)
        await chat.until_frames(29)
        session = server.manager.sessions[0]
        assert (session.spec.voice, session.spec.persona) == ("NATM1.pt", "A pirate.")
        assert session.counters.emitted == len(engine.stepped) == 30
        assert chat.words.startswith(" w1 w2") and np.abs(chat.sound).max() > 0.05
        await socket.close()
        await asyncio.wait_for(session.wait_closed(), PATIENCE_S)
        assert engine.stats().used == 0


async def test_an_unknown_voice_and_an_empty_persona_are_the_defaults() -> None:
    async with serving(FakeEngine()) as server:
        address = server.ws + path(voice_prompt="../x.pt", text_prompt="")
        async with server.http.ws_connect(address) as socket:
            assert await Chat(socket).message() == b"\x00"
            assert server.manager.sessions[0].spec == server.manager.default_spec


@pytest.mark.parametrize(
    ("allowed", "seed", "sampling"),
    [
        (True, "42", Sampling(seed=42)),
        (True, "-1", None),
        (True, "x", None),
        (True, "9" * 40, None),
        (False, "42", None),
    ],
)
async def test_the_seed_counts_where_sampling_is_allowed(
    allowed: bool, seed: str, sampling: Sampling | None
) -> None:  # contract: B5
    async with serving(FakeEngine(), HttpOptions(allow_sampling=allowed)) as server:
        address = server.ws + path(seed=seed, text_temperature="0.7", audio_topk="250")
        async with server.http.ws_connect(address) as socket:
            await Chat(socket).message()
            assert server.manager.sessions[0].spec.sampling == sampling


async def test_full_is_refused_with_1013() -> None:  # contract: A1 A2
    async with serving(FakeEngine(max_sessions=1)) as server:
        async with server.http.ws_connect(server.ws + path()) as first:
            await Chat(first).message()
            async with server.http.ws_connect(server.ws + path()) as second:
                told = await Chat(second).message()
                assert told is not None and told.startswith(b"\x05resource_exhausted")
                assert await Chat(second).message() is None
                assert second.close_code == 1013


async def test_what_cannot_be_prepared_closes_with_a_reason() -> None:  # contract: B6
    from model import CallFailed, Handle, SessionSpec

    class Failing(FakeEngine):
        def bind(self, handle: Handle, spec: SessionSpec) -> None:
            self._deliver(self._calls[handle.slot], CallFailed(0, "prompt_too_long", "too long"))

    async with serving(Failing()) as server:
        async with server.http.ws_connect(server.ws + path()) as socket:
            chat = Chat(socket)
            told = await chat.message()
            assert told is not None and told.startswith(b"\x05prompt_too_long")
            assert await chat.message() is None
            assert socket.close_code == 1008


async def test_other_kinds_are_ignored_and_broken_opus_ends_the_call() -> None:
    async with serving(FakeEngine()) as server:
        async with server.http.ws_connect(server.ws + path()) as socket:
            chat = Chat(socket)
            await chat.message()
            await socket.send_bytes(b"\x03\x00")
            await socket.send_bytes(b"")
            await socket.send_str("hello")
            await chat.say(2)
            await chat.until_frames(1)
            await socket.send_bytes(b"\x01" + b"not an ogg page" * 100)
            while (told := await chat.message()) is not None and told[0] != 5:
                pass
            assert told is not None and told.startswith(b"\x05bad_audio")


async def test_a_flood_of_packed_silence_meets_the_bound() -> None:  # contract: C4
    """Minutes of silence in a few kilobytes must not become gigabytes of samples."""
    async with serving(FakeEngine(step_s=None)) as server:
        async with server.http.ws_connect(server.ws + path()) as socket:
            chat = Chat(socket)
            await chat.message()
            pages = [
                chat.writer.append_pcm(np.zeros(FRAME_SAMPLES, np.float32)) for _ in range(900)
            ]
            flood = b"".join(pages)
            assert len(flood) > SLICE_BYTES
            await socket.send_bytes(b"\x01" + flood)
            told = await chat.message()
            assert told is not None and told.startswith(b"\x05input_backpressure")
