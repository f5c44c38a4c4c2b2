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
CLEAN = (Reason.CLIENT_INITIATED, Reason.PARTICIPANT_REMOVED, Reason.ROOM_DELETED)
PEOPLE = (
    Kind.PARTICIPANT_KIND_STANDARD,
    Kind.PARTICIPANT_KIND_SIP,
    Kind.PARTICIPANT_KIND_CONNECTOR,
)


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


# contract: H1
@pytest.mark.parametrize("kind", Kind.values(), ids=Kind.keys())
async def test_people_are_heard_and_no_other_kind(kind: Any) -> None:
    who = Participant(kind=kind, attributes={"sip.callStatus": "active"})
    house = House()
    house.guests.greet()
    house.room.emit("participant_connected", who)
    house.room.emit("track_subscribed", "a track", Publication(), who)
    person = kind in PEOPLE
    assert house.heard.running == ["TR_voice"] * person
    assert house.guests.answered.is_set() is person
    who.disconnect_reason = Reason.CLIENT_INITIATED
    house.room.emit("participant_disconnected", who)
    assert house.ends == ["participant_left"] * person
    house.guests.stop()


# contract: H4
@pytest.mark.parametrize("grace", [60.0, 0.0])
@pytest.mark.parametrize("reason", Reason.values(), ids=Reason.keys())
async def test_the_last_who_leaves_ends_it_at_once_or_is_waited_for(
    reason: Any, grace: float
) -> None:
    ada = Participant()
    house = House(ada, grace=grace)
    house.guests.greet()
    ada.disconnect_reason = reason
    house.room.emit("participant_disconnected", ada)
    lost = [] if grace else ["resume_grace"]
    assert house.ends == (["participant_left"] if reason in CLEAN else lost)
    back = Participant(sid="PA_2")
    house.room.emit("participant_connected", back)
    house.room.emit("track_subscribed", "a track", Publication(), back)
    assert house.heard.running == ["TR_voice"]
    house.room.emit("track_unsubscribed", "a track", Publication(), back)
    assert not house.heard.running


# contract: H4
@pytest.mark.parametrize(("status", "ends"), [("hangup", ["participant_left"]), ("active", [])])
async def test_a_bridge_that_breaks_has_left_only_where_the_line_was_put_down(
    status: str, ends: list[str]
) -> None:
    phone = Participant(kind=Kind.PARTICIPANT_KIND_SIP, attributes={"sip.callStatus": "active"})
    house = House(phone)
    house.guests.greet()
    phone.attributes["sip.callStatus"] = status
    phone.disconnect_reason = Reason.SIGNAL_CLOSE
    house.room.emit("participant_disconnected", phone)
    assert house.ends == ends
    house.guests.stop()
