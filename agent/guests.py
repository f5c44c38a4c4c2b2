"""The people in a room as LiveKit's events tell of them: who is heard, who answered, when it ends.

It keeps `Presence` and `Tracks` up to date and calls back when nobody is left to talk to. It knows
no session and no sound.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from livekit import rtc

from agent import people
from agent.presence import Ending, Presence
from agent.tracks import Tracks


class Guests:
    """Listens from before the room is connected; `greet` takes in who came before us."""

    def __init__(
        self, room: rtc.Room, presence: Presence, tracks: Tracks, over: Callable[[str], None]
    ) -> None:
        self.answered = asyncio.Event()
        """Somebody is there to hear a greeting."""
        self._room = room
        self._presence = presence
        self._tracks = tracks
        self._over = over
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        room.on("participant_connected", self._joined)
        room.on("participant_disconnected", self._left)
        room.on("participant_attributes_changed", self._changed)
        room.on("track_subscribed", self._subscribed)
        room.on("track_unsubscribed", self._unsubscribed)

    def greet(self) -> None:
        """Take in everybody and every track that was there before us."""
        for participant in list(self._room.remote_participants.values()):
            self._joined(participant)
            for publication in participant.track_publications.values():
                if publication.track is not None:
                    self._subscribed(publication.track, publication, participant)
        self._attend()

    def stop(self) -> None:
        """Nobody is waited for any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _joined(self, participant: rtc.RemoteParticipant) -> None:
        if people.is_person(participant):
            answered = people.has_answered(participant)
            self._presence.joined(participant.identity, participant.sid, answered)
            self._attend()

    def _left(self, participant: rtc.RemoteParticipant) -> None:
        if people.is_person(participant):
            how, now = people.how_left(participant), self._loop.time()
            self._presence.left(participant.identity, participant.sid, how, now)
            self._attend()

    def _changed(self, changed: dict[str, str], participant: rtc.RemoteParticipant) -> None:
        if people.CALL_STATUS in changed and people.has_answered(participant):
            self._presence.answer(participant.identity)
            self._attend()

    def _subscribed(
        self,
        track: rtc.Track,
        publication: rtc.RemoteTrackPublication,
        participant: rtc.RemoteParticipant,
    ) -> None:
        heard = participant.identity in self._presence.people
        if heard and people.is_person(participant) and people.is_speech(publication):
            self._tracks.start(publication.sid, track)

    def _unsubscribed(
        self,
        track: rtc.Track,
        publication: rtc.RemoteTrackPublication,
        participant: rtc.RemoteParticipant,
    ) -> None:
        self._tracks.stop(publication.sid)

    def _attend(self) -> None:
        """Somebody came or went: start, go on, or end now or later."""
        self.stop()
        if self._presence.answered:
            self.answered.set()
        ending = self._presence.ending(self._loop.time())
        if isinstance(ending, Ending):
            self._over(ending.value)
        elif self._presence.ends_at is not None:
            self._timer = self._loop.call_at(self._presence.ends_at, self._attend)
