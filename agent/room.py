"""One call in one room: microphones in, the agent's track and transcript out (contract H).

It puts the parts together (`hearing`, `guests`, `speaker`, `transcript`, a session) from the
joining to the farewell. It knows nothing of jobs, of dispatch and of who may have a slot.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from livekit import rtc

from agent.endings import to_the_end
from agent.errors import SessionError
from agent.guests import Guests
from agent.hearing import Hearing
from agent.presence import Presence
from agent.recording import Recorder
from agent.session import Session
from agent.sink import OutputFrame, ResponseEnd, ResponseInfo, Sink
from agent.speaker import Speaker
from agent.tracks import FRAME_MS, Tracks
from agent.transcript import Transcript
from model import SAMPLE_RATE, Pcm

log = logging.getLogger(__name__)
SOURCE_QUEUE_MS = 200
"""The default of a second would be a second of latency that never goes away."""
GOODBYE_SECONDS = 2.0
"""How long the last messages may take."""
HANG_UP_DIGIT = "#"
STATS_EVERY_FRAMES = 25


@dataclass(frozen=True, slots=True)
class RoomRules:
    """How a call in a room ends."""

    heard: str
    resume_grace: float
    max_call_duration: float
    recording: Path | None = None


class RoomCall:
    """A session's sink on one side, a room's events on the other."""

    def __init__(
        self, room: rtc.Room, rules: RoomRules, open_session: Callable[[Sink], Session]
    ) -> None:
        loop = asyncio.get_running_loop()
        self.room = room
        self.session = open_session(self)
        self.position = 0
        self.unused = 0
        """Frames that came before anybody had answered, or after the end."""
        self._rules = rules
        self._loop = loop
        self._hearing = Hearing(self._heard, loop.time())
        self._tracks = Tracks(self._hearing)
        presence = Presence(rules.heard, rules.resume_grace, loop.time())
        self._guests = Guests(room, presence, self._tracks, self.close)
        self._source = rtc.AudioSource(SAMPLE_RATE, 1, queue_size_ms=SOURCE_QUEUE_MS)
        self._speaker = Speaker(self._source)
        self._recorder = Recorder(rules.recording, self.session.id) if rules.recording else None
        self._publication: rtc.LocalTrackPublication | None = None
        self._transcript: Transcript | None = None
        self._ended: asyncio.Future[str] = loop.create_future()
        self._failure: SessionError | None = None
        self._doing = "initializing"
        self._frames_out = 0
        room.on("sip_dtmf_received", self._digit)
        room.on("disconnected", lambda *_: self.close("room_disconnected"))

    # The life of a call.

    async def run(self, connect: Callable[[], Any]) -> str:
        """Join, talk until the call is over; the reason. The slot is free afterwards."""
        self.session.bind()
        tasks: list[asyncio.Task[None]] = []
        try:
            await connect()
            record = self._recorder.message if self._recorder else None
            self._transcript = Transcript(self.room.local_participant, self._track_sid, record)
            await self._publish()
            self._state(self._doing)
            tasks = [
                self._loop.create_task(self._speaker.run()),
                self._loop.create_task(self._clock()),
            ]
            self._loop.call_later(self._rules.max_call_duration, self.close, "max_call_duration")
            self._guests.greet()
            writing = self._loop.create_task(self._transcript.run())
            tasks.append(writing)
            reason = await self._ended
            self._say_goodbye(reason)
            await asyncio.wait([writing], timeout=GOODBYE_SECONDS)
            return reason
        finally:
            await to_the_end(self._leave(tasks))

    async def _publish(self) -> None:
        track = rtc.LocalAudioTrack.create_audio_track("agent", self._source)
        options = rtc.TrackPublishOptions(source=rtc.TrackSource.SOURCE_MICROPHONE)
        self._publication = await self.room.local_participant.publish_track(track, options)

    def _say_goodbye(self, reason: str) -> None:
        assert self._transcript is not None
        failure = self._failure
        why = {"code": failure.code, "message": failure.message} if failure else {}
        self._transcript.data("stats", self.t_ms, **self.stats())
        self._transcript.data("state", self.t_ms, state="closed", reason=reason, **why)
        self._transcript.finish()

    async def _leave(self, tasks: list[asyncio.Task[None]]) -> None:
        self.close("room_disconnected")
        await self.session.wait_closed()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._tracks.aclose()
        await self._unpublish()
        await self._source.aclose()
        self._guests.stop()
        if self._recorder is not None:
            await asyncio.to_thread(self._recorder.close)

    async def _unpublish(self) -> None:
        """The native source has a thread, which ends only where its track is withdrawn first."""
        if self._publication is None or not self.room.isconnected():
            return
        try:
            async with asyncio.timeout(GOODBYE_SECONDS):
                await self.room.local_participant.unpublish_track(self._publication.sid)
        except Exception as error:  # a room that goes away meanwhile; rtc names no class for it
            log.debug("the track was not withdrawn: %s", error)

    def close(self, reason: str) -> None:
        """End the call; `run` returns once the slot has gone back. Idempotent."""
        self.session.close(reason)

    def cancel(self, mode: Any = None) -> None:
        """Make the agent fall silent, what it has already said included.

        Raises `SessionError` where there is nothing to cancel; the rest of what it said is heard.
        """
        self.session.cancel(mode, reason="rpc")
        self._speaker.clear()

    # What can be read off.

    @property
    def t_ms(self) -> int:
        """The frame clock: milliseconds of audio that the agent has made."""
        return self._frames_out * FRAME_MS

    def stats(self) -> dict[str, Any]:
        """Every counter of the call, by stage."""
        return {
            "session": self.session.id,
            "epoch": self.session.epoch,
            "position": self.position,
            "unused": self.unused,
            "frames": dataclasses.asdict(self.session.counters),
            **self.counts(),
            "messages_lost": self._transcript.lost if self._transcript else 0,
        }

    def counts(self) -> dict[str, dict[str, int]]:
        """What became of the frames before the session and after it."""
        hearing, clock = self._hearing.totals(), self._hearing.clock.counters
        return {
            "hearing": {**dataclasses.asdict(hearing), **dataclasses.asdict(clock)},
            "speaker": dataclasses.asdict(self._speaker.counters),
        }

    async def media(self) -> list[dict[str, Any]]:
        """What the network did to each heard track, by WebRTC's own statistics."""
        return await self._tracks.media()

    def _track_sid(self) -> str:
        return self._publication.sid if self._publication else ""

    # The session's sink.

    def bound(self, epoch: int, prefill_positions: int) -> None:
        self._state("listening")

    def response_started(self, response: ResponseInfo) -> None:
        self._speaker.then(partial(self._state, "speaking"))

    def output(self, frame: OutputFrame) -> None:
        self.position = frame.position
        self._frames_out += 1
        said = partial(self._say, frame.response_id, self.t_ms, frame.text)
        self._speaker.play(frame.pcm, said)
        if self._recorder is not None:
            self._recorder.frame(frame.heard, frame.pcm)
        if self._frames_out % STATS_EVERY_FRAMES == 0 and self._transcript is not None:
            self._transcript.data("stats", self.t_ms, **self.stats())

    def response_done(self, end: ResponseEnd) -> None:
        self._speaker.then(partial(self._finish_segment, end.id, self.t_ms))

    def error(self, error: SessionError) -> None:
        self._failure = error

    def closed(self, reason: str, expired: bool) -> None:
        if not self._ended.done():
            self._ended.set_result(reason)

    def _say(self, segment: str | None, t_ms: int, text: str) -> None:
        if segment is not None and text and self._transcript is not None:
            self._transcript.text(segment, t_ms, text)

    def _finish_segment(self, segment: str, t_ms: int) -> None:
        if self._transcript is not None:
            self._transcript.done(segment, t_ms)
        self._state("listening")

    def _state(self, doing: str) -> None:
        self._doing = doing
        if self._transcript is not None:
            self._transcript.state(self.t_ms, doing, session=self.session.id)

    # Frames in.

    def _heard(self, pcm: Pcm, clocked: bool) -> None:
        if self._guests.answered.is_set() and self.session.state == "open":
            self.session.push_frame(pcm, clocked=clocked)
        else:
            self.unused += 1

    async def _clock(self) -> None:
        """The monotonic clock: it makes the frames that no lead makes."""
        await self._guests.answered.wait()
        while True:
            self._hearing.tick(self._loop.time())
            await asyncio.sleep(max(0.0, self._hearing.clock.due - self._loop.time()))

    def _digit(self, dtmf: rtc.SipDTMF) -> None:
        if self._transcript is not None:
            self._transcript.data("dtmf", self.t_ms, digit=dtmf.digit)
        if dtmf.digit == HANG_UP_DIGIT:
            self.close("hangup_key")
