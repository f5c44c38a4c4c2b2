"""The same load through a LiveKit room: a token of the server, a participant, the agent's track.

The agent's track never pauses, so output frames are counted from the first input frame on and up
to the number sent; what the room did with each sent frame is asked of the agent itself.
"""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import numpy as np
from livekit import rtc

from agent.driver.evaluate import Observation
from agent.driver.options import FRAME_SAMPLES, FRAME_SECONDS, SAMPLE_RATE, DriverOptions
from agent.driver.pacing import PacedSender, SendTimes
from agent.driver.packets import AudioLedger, AudioPacket
from agent.driver.probe import DriverError, Refused
from agent.driver.server import http_base
from agent.driver.source import InputAudio

SOURCE_QUEUE_MS = 200
TRANSCRIPT_TOPIC = "lk.transcription"
READY_STATES = ("listening", "speaking")
STATE_ATTRIBUTE = "lk.agent.state"
IN_FLIGHT = 3
"""Frames that may wait in the room or the engine while the counters are read."""


@dataclass
class RoomProbe:
    """A participant that plays the input and hears the agent."""

    name: str
    options: DriverOptions
    http: aiohttp.ClientSession
    sent: list[SendTimes] = field(default_factory=list)
    audio: AudioLedger = field(default_factory=AudioLedger)
    first_text_at: float | None = None
    session_id: str | None = None
    _room: rtc.Room = field(default_factory=rtc.Room)
    _source: rtc.AudioSource | None = None
    _listener: asyncio.Task[None] | None = None
    _stream: rtc.AudioStream | None = None
    _input_started: bool = False
    _unaccounted: str | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def frames_sent(self) -> int:
        return len(self.sent)

    @property
    def frames_received(self) -> int:
        return self.audio.frames

    async def open(self) -> None:
        """Ask for a token, join, publish, wait for the agent. Raises `Refused`, `DriverError`."""
        try:
            async with asyncio.timeout(self.options.timeout_s):
                details = await self._details()
                self._room.on("track_subscribed", self._subscribed)
                self._room.on("participant_attributes_changed", lambda *_: self._changed.set())
                self._room.register_text_stream_handler(TRANSCRIPT_TOPIC, self._text)
                await self._room.connect(details["serverUrl"], details["participantToken"])
                await self._publish()
                await self._agent_is_ready()
                self.session_id = (await self._stats())["session"]
        except (aiohttp.ClientError, OSError, TimeoutError, rtc.ConnectError) as error:
            raise DriverError("admission", type(error).__name__) from error
        except (KeyError, TypeError, ValueError, rtc.RpcError) as error:
            raise DriverError("admission", type(error).__name__) from error

    async def _details(self) -> dict[str, Any]:
        key = self.options.api_key
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        url = f"{http_base(self.options.url)}/api/connection-details"
        async with self.http.post(url, json={}, headers=headers) as response:
            if response.status == 503:
                raise Refused("resource_exhausted")
            response.raise_for_status()
            return dict(await response.json())

    async def _publish(self) -> None:
        self._source = rtc.AudioSource(SAMPLE_RATE, 1, queue_size_ms=SOURCE_QUEUE_MS)
        track = rtc.LocalAudioTrack.create_audio_track("driver", self._source)
        options = rtc.TrackPublishOptions(source=rtc.TrackSource.SOURCE_MICROPHONE)
        await self._room.local_participant.publish_track(track, options)

    async def _agent_is_ready(self) -> None:
        while self._listener is None or self._agent_state() not in READY_STATES:
            self._changed.clear()
            await self._changed.wait()

    def _agent(self) -> rtc.RemoteParticipant | None:
        people = self._room.remote_participants.values()
        agents = (p for p in people if p.kind == rtc.ParticipantKind.PARTICIPANT_KIND_AGENT)
        return next(agents, None)

    def _agent_state(self) -> str | None:
        agent = self._agent()
        return agent.attributes.get(STATE_ATTRIBUTE) if agent else None

    async def _stats(self) -> dict[str, Any]:
        agent = self._agent()
        if agent is None:
            raise DriverError("stats", "agent_left")
        answer = await self._room.local_participant.perform_rpc(
            destination_identity=agent.identity, method="personaplex.stats", payload="{}"
        )
        return dict(json.loads(answer))

    def _subscribed(self, track: rtc.Track, *_: object) -> None:
        if track.kind == rtc.TrackKind.KIND_AUDIO and self._listener is None:
            self._stream = rtc.AudioStream(
                track,
                sample_rate=SAMPLE_RATE,
                num_channels=1,
                frame_size_ms=round(FRAME_SECONDS * 1e3),
            )
            self._listener = asyncio.create_task(self._listen(self._stream))
            self._tasks.add(self._listener)
            self._changed.set()

    async def _listen(self, stream: rtc.AudioStream) -> None:
        async for event in stream:
            if self._input_started and self.frames_received < max(1, self.frames_sent):
                pcm16 = bytes(event.frame.data)
                packet = AudioPacket(time.monotonic(), pcm16, self.session_id or "")
                self.audio.packets.append(packet)

    def _text(self, reader: rtc.TextStreamReader, _identity: str) -> None:
        task = asyncio.create_task(self._first_text(reader))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _first_text(self, reader: rtc.TextStreamReader) -> None:
        # A line that is being spoken when the room is left ends in the middle.
        with suppress(rtc.StreamError):
            async for chunk in reader:
                if chunk.strip() and self._input_started and self.first_text_at is None:
                    self.first_text_at = time.monotonic()

    async def stream(self, audio: InputAudio, start: float) -> None:
        """Capture every frame on the grid that begins at `start`."""
        source = self._source
        assert source is not None
        samples = (np.clip(audio.frames, -1.0, 1.0) * 32_767).astype("<i2")

        async def send(index: int) -> None:
            self._input_started = True
            data = samples[index].tobytes()
            await source.capture_frame(rtc.AudioFrame(data, SAMPLE_RATE, 1, FRAME_SAMPLES))

        try:
            async with asyncio.timeout(self.options.timeout_s + len(samples) * FRAME_SECONDS):
                await PacedSender(send, self.sent).run(len(samples), start)
        except (OSError, TimeoutError, RuntimeError) as error:
            raise DriverError("stream", type(error).__name__) from error

    async def drain(self) -> None:
        """The fixed wait; then every frame must be in one of the agent's counters."""
        await asyncio.sleep(self.options.drain_s)
        try:
            stats = await self._stats()
        except rtc.RpcError as error:
            raise DriverError("stats", type(error).__name__) from error
        self._unaccounted = unaccounted(stats, self.frames_sent)

    def observe(self, index: int, planned_frames: int, error: str | None) -> Observation:
        """A copy of what has come so far."""
        return Observation(
            index=index,
            session_id=self.session_id,
            planned_frames=planned_frames,
            sent=list(self.sent),
            audio=self.audio.since(0),
            audio_events=None,
            first_text_at=self.first_text_at,
            error_codes=[],
            error=error or self._unaccounted,
        )

    async def close(self) -> None:
        """Leave the room within the bound. Raises `DriverError`."""
        try:
            async with asyncio.timeout(self.options.cleanup_timeout_s):
                await self._room.disconnect()
        except TimeoutError as error:
            raise DriverError("cleanup", "TimeoutError") from error
        finally:
            await self._release()

    async def abandon(self) -> None:
        with suppress(DriverError):
            await self.close()

    async def _release(self) -> None:
        for task in list(self._tasks):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        if self._stream is not None:
            await self._stream.aclose()
        if self._source is not None:
            await self._source.aclose()


def unaccounted(stats: dict[str, Any], frames_sent: int) -> str | None:
    """What does not add up in the agent's counters for `frames_sent` frames of the lead track."""
    hearing, frames = stats["hearing"], stats["frames"]
    came = hearing["lead_frames"]
    dropped = frames["dropped_overflow"] + frames["dropped_cancel"] + frames["dropped_close"]
    kept = hearing["made"] - stats["unused"]
    waiting = frames["accepted"] - dropped - frames["stepped"]
    if came < frames_sent:
        return f"accounting: {came} of {frames_sent} frames reached the agent"
    if kept != frames["accepted"]:
        return f"accounting: {kept} frames made, {frames['accepted']} accepted"
    if not 0 <= waiting <= IN_FLIGHT:
        return f"accounting: {frames['accepted']} accepted, {frames['stepped']} stepped"
    return None
