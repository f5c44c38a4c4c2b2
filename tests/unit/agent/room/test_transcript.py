"""What the room reads: the same words as text stream and as data message, in order."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from agent.transcript import Transcript
from tests.fakes.clock import run

pytestmark = pytest.mark.unit


class Room:
    """Remembers everything that was published."""

    def __init__(self, broken: bool = False) -> None:
        self.streams: list[dict[str, Any]] = []
        self.messages: list[dict[str, Any]] = []
        self.attributes: list[dict[str, str]] = []
        self._broken = broken

    async def stream_text(
        self, *, topic: str = "", attributes: dict[str, str] | None = None
    ) -> Stream:
        if self._broken:
            raise RuntimeError("engine closed")
        record = {"topic": topic, **(attributes or {}), "text": ""}
        self.streams.append(record)
        return Stream(record)

    async def publish_data(
        self, payload: bytes | str, *, reliable: bool = True, topic: str = ""
    ) -> None:
        if self._broken:
            raise RuntimeError("engine closed")
        assert reliable and topic == "personaplex"
        self.messages.append(json.loads(payload))

    async def set_attributes(self, attributes: dict[str, str]) -> None:
        self.attributes.append(attributes)


class Stream:
    def __init__(self, record: dict[str, Any]) -> None:
        self._record = record

    async def write(self, text: str) -> None:
        self._record["text"] += text

    async def aclose(self, *, reason: str = "", attributes: dict[str, str] | None = None) -> None:
        self._record.update(attributes or {})


def written(room: Room, say: Any) -> Transcript:
    async def main() -> Transcript:
        transcript = Transcript(room, lambda: "TR_1")
        say(transcript)
        transcript.finish()
        await asyncio.wait_for(transcript.run(), 10)
        return transcript

    return run(main())


# contract: H5
def test_segments_have_ids_final_flags_track_and_times() -> None:
    def say(transcript: Transcript) -> None:
        transcript.text("s1", 80, " hello")
        transcript.text("s1", 160, " there")
        transcript.done("s1", 240)
        transcript.text("s2", 320, " bye")

    room = Room()
    written(room, say)
    first, second = room.streams
    assert first == {
        "topic": "lk.transcription",
        "lk.segment_id": "s1",
        "lk.transcription_final": "true",
        "lk.transcribed_track_id": "TR_1",
        "text": " hello there",
    }
    assert (second["lk.segment_id"], second["lk.transcription_final"]) == ("s2", "false")
    assert room.messages == [
        {"type": "transcript", "t_ms": 80, "segment": "s1", "text": " hello", "final": False},
        {"type": "transcript", "t_ms": 160, "segment": "s1", "text": " there", "final": False},
        {"type": "transcript", "t_ms": 240, "segment": "s1", "text": " hello there", "final": True},
        {"type": "transcript", "t_ms": 320, "segment": "s2", "text": " bye", "final": False},
    ]


# contract: H5
def test_the_state_goes_out_as_attribute_and_message() -> None:
    room = Room()
    written(room, lambda transcript: transcript.state(400, "speaking"))
    assert room.attributes == [{"lk.agent.state": "speaking"}]
    assert room.messages == [{"type": "state", "t_ms": 400, "state": "speaking"}]


def test_a_segment_without_words_is_no_segment() -> None:
    room = Room()
    written(room, lambda transcript: transcript.done("s1", 80))
    assert room.streams == room.messages == []


def test_a_room_that_goes_away_loses_messages_and_nothing_else() -> None:
    transcript = written(Room(broken=True), lambda t: t.text("s1", 80, "x"))
    assert transcript.lost == 1
