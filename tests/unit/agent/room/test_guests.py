"""LiveKit's events of people and tracks, as they start, keep and end a call."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from livekit import rtc

from agent.guests import Guests
from agent.presence import Presence
from agent.tracks import Tracks

pytestmark = pytest.mark.unit
Kind = rtc.ParticipantKind
Reason = rtc.DisconnectReason


@dataclass
class Publication:
    sid: str = "TR_voice"
    kind: Any = rtc.TrackKind.KIND_AUDIO
    source: Any = rtc.TrackSource.SOURCE_MICROPHONE
    track: Any = "a track"


@dataclass
class Participant:
    identity: str = "ada"
    sid: str = "PA_1"
    kind: Any = Kind.PARTICIPANT_KIND_STANDARD
    attributes: dict[str, str] = field(default_factory=dict)
    disconnect_reason: Any = None
    track_publications: dict[str, Publication] = field(default_factory=dict)


class Room(rtc.EventEmitter[str]):
    def __init__(self, *participants: Participant) -> None:
        super().__init__()
        self.remote_participants = {one.identity: one for one in participants}


class Heard:
    """In the place of `Tracks`: which of them run."""

    def __init__(self) -> None:
        self.running: list[str] = []

    def start(self, sid: str, track: Any) -> None:
        self.running.append(sid)

    def stop(self, sid: str) -> None:
        self.running.remove(sid)


class House:
    """A room, its guests, and why it was over."""

    def __init__(self, *participants: Participant, grace: float = 60.0) -> None:
        self.room, self.heard, self.ends = Room(*participants), Heard(), list[str]()
        presence = Presence("all", grace, asyncio.get_running_loop().time())
        tracks = cast(Tracks, self.heard)
        self.guests = Guests(cast(rtc.Room, self.room), presence, tracks, self.ends.append)


# contract: H1
async def test_who_was_there_before_is_greeted_and_heard() -> None:
    voice, music = Publication(), Publication("TR_screen")
    music.source = rtc.TrackSource.SOURCE_SCREENSHARE_AUDIO
    ada = Participant(track_publications={"voice": voice, "music": music})
    robot = Participant("robot", kind=Kind.PARTICIPANT_KIND_AGENT)
    robot.track_publications["voice"] = Publication("TR_robot")
    house = House(robot, ada)
    assert not house.guests.answered.is_set()
    house.guests.greet()
    assert house.guests.answered.is_set()
    assert house.heard.running == ["TR_voice"]
    house.guests.stop()


# contract: H7
async def test_a_telephone_is_there_once_it_is_picked_up() -> None:
    phone = Participant("sip_1", kind=Kind.PARTICIPANT_KIND_SIP)
    phone.attributes["sip.callStatus"] = "ringing"
    house = House()
    house.guests.greet()
    house.room.emit("participant_connected", phone)
    assert not house.guests.answered.is_set() and not house.ends
    phone.attributes["sip.callStatus"] = "active"
    house.room.emit("participant_attributes_changed", {"sip.callStatus": "active"}, phone)
    assert house.guests.answered.is_set()


# contract: H4
@pytest.mark.parametrize(
    ("reason", "grace", "ends"),
    [
        (Reason.CLIENT_INITIATED, 60.0, ["participant_left"]),
        (Reason.SIGNAL_CLOSE, 60.0, []),
        (Reason.SIGNAL_CLOSE, 0.0, ["resume_grace"]),
    ],
)
async def test_the_last_who_leaves_ends_it_at_once_or_is_waited_for(
    reason: Any, grace: float, ends: list[str]
) -> None:
    ada = Participant()
    house = House(ada, grace=grace)
    house.guests.greet()
    ada.disconnect_reason = reason
    house.room.emit("participant_disconnected", ada)
    assert house.ends == ends
    back = Participant(sid="PA_2")
    house.room.emit("participant_connected", back)
    house.room.emit("track_subscribed", "a track", Publication(), back)
    assert house.heard.running == ["TR_voice"]
    house.room.emit("track_unsubscribed", "a track", Publication(), back)
    assert not house.heard.running
