"""A person in a room, as a test plays one: microphone, ears, eyes, and a way to leave.

Built on `livekit.rtc` as any client is; it remembers everything that it heard and read.
"""

from __future__ import annotations

import asyncio
import datetime
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from livekit import api, rtc
from numpy.typing import NDArray

from tests.e2e.patience import PATIENCE_SECONDS, within
from tests.e2e.processes import API_KEY, API_SECRET

RATE = 48_000
CHUNK = RATE // 50
EAR_RATE = 24_000
Sound = NDArray[np.float32]


def token(
    room: str,
    identity: str,
    *,
    kind: Any = "standard",
    dispatch: str | None = "",
    attributes: dict[str, str] | None = None,
    may_publish: bool = True,
) -> str:
    """A token for the room; `dispatch` is the agent's metadata, none for no agent."""
    grants = api.VideoGrants(
        room_join=True,
        room=room,
        can_update_own_metadata=True,
        can_publish=may_publish,
        can_publish_data=True,
    )
    access = (
        api.AccessToken(API_KEY, API_SECRET)
        .with_identity(identity)
        .with_kind(kind)
        .with_attributes(attributes or {})
        .with_grants(grants)
        .with_ttl(datetime.timedelta(hours=1))
    )
    if dispatch is not None:
        agents = [api.RoomAgentDispatch(agent_name="personaplex", metadata=dispatch)]
        access = access.with_room_config(api.RoomConfiguration(agents=agents))
    return access.to_jwt()


@dataclass
class Segment:
    """One transcript text stream, whole."""

    id: str
    track: str
    text: str


@dataclass
class Caller:
    """One participant; `async with` connects and leaves cleanly."""

    url: str
    room_name: str
    identity: str = "caller"
    dispatch: str | None = ""
    kind: Any = "standard"
    attributes: dict[str, str] = field(default_factory=dict)
    may_publish: bool = True
    """Whether the server lets this person have a microphone."""
    microphone_ms: int = 200
    """Sound that the microphone holds ready; it gives silence where that has run out."""

    heard: list[Sound] = field(default_factory=list)
    """The agent's track at 24 kHz, in pieces of 20 ms."""
    segments: list[Segment] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    states: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.room = rtc.Room()
        self.agent: rtc.RemoteParticipant | None = None
        self.source: rtc.AudioSource | None = None
        self.track: rtc.LocalAudioTrack | None = None
        self.publication: rtc.LocalTrackPublication | None = None
        self.agent_track: rtc.Track | None = None
        self._news = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Caller:
        await self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.leave()

    async def connect(self) -> None:
        room = self.room
        room.register_text_stream_handler("lk.transcription", self._read)
        room.on("data_received", self._message)
        room.on("track_subscribed", self._listen)
        room.on("participant_connected", lambda who: self._look(who))
        room.on("participant_disconnected", self._gone)
        room.on("participant_attributes_changed", lambda changed, who: self._look(who))
        room.on("disconnected", lambda *_: self._news.set())
        jwt = token(
            self.room_name,
            self.identity,
            kind=self.kind,
            dispatch=self.dispatch,
            attributes=self.attributes,
            may_publish=self.may_publish,
        )
        async with within(f"{self.identity} to join"):
            await room.connect(self.url, jwt)
        for who in room.remote_participants.values():
            self._look(who)

    async def leave(self) -> None:
        """Go on purpose; streams first, since the native side outlives a disconnect."""
        for task in self._tasks:
            task.cancel()
        async with within(f"{self.identity} to leave"):
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self.room.disconnect()
        if self.source is not None:
            await self.source.aclose()

    async def until(self, what: str, true: Callable[[], Any], seconds: float = 0) -> None:
        """Wait for a condition; whatever reaches this person may make it true."""
        try:
            async with asyncio.timeout(seconds or PATIENCE_SECONDS):
                while not true():
                    self._news.clear()
                    try:
                        await asyncio.wait_for(self._news.wait(), 0.2)
                    except TimeoutError:
                        continue
        except TimeoutError:
            raise AssertionError(
                f"{self.identity} waited in vain for {what}; states {self.states}, "
                f"{len(self.heard)} pieces heard, last messages {self.messages[-3:]}"
            ) from None

    async def until_agent(self, state: str = "listening") -> None:
        await self.until(f"an agent {state}", lambda: state in self.states)

    # Speaking.

    async def publish(self, *, muted: bool = False) -> None:
        """Have a microphone; a muted one was so before the room knew of it."""
        self.source = rtc.AudioSource(RATE, 1, queue_size_ms=self.microphone_ms)
        self.track = rtc.LocalAudioTrack.create_audio_track("microphone", self.source)
        if muted:
            self.track.mute()
        options = rtc.TrackPublishOptions(source=rtc.TrackSource.SOURCE_MICROPHONE)
        # Discontinuous transmission would replace quiet parts by comfort noise.
        options.dtx = False
        async with within(f"{self.identity} to have a microphone"):
            participant = self.room.local_participant
            self.publication = await participant.publish_track(self.track, options)

    async def unpublish(self) -> None:
        """Have no microphone any more; whoever speaks again has a new one."""
        assert self.publication is not None and self.source is not None
        async with within(f"{self.identity} to give up a microphone"):
            await self.room.local_participant.unpublish_track(self.publication.sid)
            await self.source.aclose()
        self.source = self.track = self.publication = None

    async def say(self, sound: Sound) -> None:
        """Play 48 kHz samples through the microphone at their own pace."""
        if self.source is None:
            await self.publish()
        assert self.source is not None
        whole = len(sound) // CHUNK * CHUNK
        pcm = (np.clip(sound[:whole], -1, 1) * 32767).astype(np.int16)
        async with within(f"{self.identity} to have spoken", whole / RATE + PATIENCE_SECONDS):
            for start in range(0, whole, CHUNK):
                piece = pcm[start : start + CHUNK].tobytes()
                await self.source.capture_frame(rtc.AudioFrame(piece, RATE, 1, CHUNK))

    async def stats(self) -> dict[str, Any]:
        """The agent's own account of the call."""
        return json.loads(await self.rpc("stats"))

    async def rpc(self, method: str, payload: str = "{}") -> str:
        assert self.agent is not None
        async with within(f"the agent's answer to {method}"):
            return await self.room.local_participant.perform_rpc(
                destination_identity=self.agent.identity,
                method=f"personaplex.{method}",
                payload=payload,
            )

    # What reaches this person.

    def sound(self) -> Sound:
        return np.concatenate(self.heard) if self.heard else np.zeros(0, np.float32)

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        return [message for message in self.messages if message["type"] == kind]

    def _look(self, who: rtc.RemoteParticipant) -> None:
        if who.kind != rtc.ParticipantKind.PARTICIPANT_KIND_AGENT:
            return
        self.agent = who
        state = who.attributes.get("lk.agent.state")
        if state and (not self.states or self.states[-1] != state):
            self.states.append(state)
        self._news.set()

    def _gone(self, who: rtc.RemoteParticipant) -> None:
        if self.agent is not None and who.identity == self.agent.identity:
            self.agent = None
        self._news.set()

    def _listen(self, track: rtc.Track, *_: object) -> None:
        self.agent_track = track
        self._spawn(self._hear(track))

    async def _hear(self, track: rtc.Track) -> None:
        stream = rtc.AudioStream(track, sample_rate=EAR_RATE, num_channels=1, frame_size_ms=20)
        try:
            async for event in stream:
                samples = np.frombuffer(event.frame.data, np.int16).astype(np.float32) / 32768
                self.heard.append(samples)
                self._news.set()
        finally:
            await stream.aclose()

    def _message(self, packet: rtc.DataPacket) -> None:
        if packet.topic == "personaplex":
            self.messages.append(json.loads(packet.data))
            self._news.set()

    def _read(self, reader: rtc.TextStreamReader, identity: str) -> None:
        self._spawn(self._read_all(reader))

    async def _read_all(self, reader: rtc.TextStreamReader) -> None:
        text = await reader.read_all()
        attributes = reader.info.attributes or {}
        self.segments.append(
            Segment(attributes["lk.segment_id"], attributes["lk.transcribed_track_id"], text)
        )
        self._news.set()

    def _spawn(self, coroutine: Any) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
