"""openai-python as its users have it, and what a browser does for a WebRTC call."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError
from openai import AsyncOpenAI

from tests.e2e.caller import Sound
from tests.e2e.patience import within
from tests.e2e.realtime import pcm16
from tests.e2e.sound_card import Loudspeaker, Microphone
from tests.fakes.server import Server


@asynccontextmanager
async def client_for(server: Server, key: str = "any") -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(api_key=key, base_url=server.url + "/v1", max_retries=0) as client:
        yield client


@asynccontextmanager
async def connected(server: Server, key: str = "any") -> AsyncIterator[Any]:
    """A websocket whose session is there."""
    async with client_for(server, key) as client:
        async with client.realtime.connect(model="demo") as connection:
            async with within("session.created"):
                created = await connection.recv()
            assert created.type == "session.created"
            yield connection


async def append(connection: Any, sound: Sound) -> None:
    """All of it at once."""
    await connection.input_audio_buffer.append(audio=base64.b64encode(pcm16(sound)).decode())


async def say(connection: Any, sound: Sound) -> None:
    """As a microphone does: 100 ms at a time."""
    for start in range(0, sound.size, 2400):
        await append(connection, sound[start : start + 2400])
        await asyncio.sleep(0.1)


async def answer_of(connection: Any, response_id: str | None = None) -> tuple[str, bytes, str]:
    """Words, audio and status of the next response, or of the one named."""
    words, audio = "", b""
    async with within(f"the end of the response {response_id or 'that comes next'}"):
        async for event in connection:
            assert event.type != "error", event
            if response_id is not None and getattr(event, "response_id", None) != response_id:
                continue
            if event.type == "response.output_audio.delta":
                audio += base64.b64decode(event.delta)
            elif event.type == "response.output_audio_transcript.delta":
                words += event.delta
            elif event.type == "response.done":
                return words, audio, event.response.status
    raise AssertionError("the connection ended")


class Browser:
    """What a page does for a call: a microphone, a loudspeaker, and an event channel."""

    def __init__(self) -> None:
        self.peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self.microphone = Microphone()
        self.loudspeaker = Loudspeaker()
        self.peer.addTrack(self.microphone)
        self.channel = self.peer.createDataChannel("oai-events")
        self.events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._hearing: asyncio.Task[None] | None = None
        self.channel.on("message", lambda text: self.events.put_nowait(json.loads(text)))
        self.peer.on("track", self._listen)

    def _listen(self, track: Any) -> None:
        async def hear() -> None:
            with suppress(MediaStreamError):
                while True:
                    self.loudspeaker.play(await track.recv())

        self._hearing = asyncio.create_task(hear())

    async def offer(self) -> str:
        async with within("an offer"):
            await self.peer.setLocalDescription(await self.peer.createOffer())
        return str(self.peer.localDescription.sdp)

    async def take(self, answer: str) -> None:
        async with within("the answer to be taken"):
            await self.peer.setRemoteDescription(RTCSessionDescription(answer, "answer"))

    async def until(self, type_: str) -> dict[str, Any]:
        async with within(type_):
            while (event := await self.events.get())["type"] != type_:
                assert event["type"] != "error", event
        return event

    async def close(self) -> None:
        async with within("the call to be closed"):
            await self.peer.close()
            if self._hearing is not None:
                await self._hearing
