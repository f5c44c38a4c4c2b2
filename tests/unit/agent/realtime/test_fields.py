"""An error about one field names it by its whole path; the private ones are refused."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest

from agent.realtime.config import PRIVATE_KEYS
from tests.fakes.engine import FakeEngine
from tests.fakes.server import serving

pytestmark = pytest.mark.unit

MOODS = ["/v1/realtime?duplex=1", "/v1/realtime"]
"""Duplex and stock, both opened by the first message."""
PCM = base64.b64encode(bytes(3840)).decode()
NAN = base64.b64encode(np.float32([np.nan]).tobytes()).decode()
NO_INTS = [True, 1.0, "1"]
"""What is like an integer, but none."""

SESSIONS: list[tuple[dict[str, Any], str]] = [
    ({"extra_body": 7}, "session.extra_body"),
    ({"extra_body": {"seed": 1}}, "session.extra_body"),
    ({"extra_body": {"cancel_mode": "gentle"}}, "session.extra_body.cancel_mode"),
    ({"extra_body": {"silence_continuation": 1}}, "session.extra_body.silence_continuation"),
    ({"instructions": 7}, "session.instructions"),
    ({"instructions": "x" * 100_001}, "session.instructions"),
    ({"instructions": "\ud800"}, "session.instructions"),
    ({"voice": "nobody"}, "session.voice"),
    ({"audio": 5}, "session.audio"),
    ({"audio": {"input": 5}}, "session.audio.input"),
    ({"audio": {"output": 5}}, "session.audio.output"),
    ({"audio": {"output": {"voice": {"id": "nobody"}}}}, "session.audio.output.voice"),
    ({"audio": {"input": {"format": "opus"}}}, "session.audio.input.format"),
    ({"audio": {"input": {"format": {"type": "audio/pcm", "rate": 1}}}},)
    + ("session.audio.input.format.rate",),
    ({"audio": {"input": {"sample_rate_hz": 1}}}, "session.audio.input.sample_rate_hz"),
    ({"audio": {"output": {"sample_rate_hz": 1}}}, "session.audio.output.sample_rate_hz"),
    ({"audio": {"output": {"format": "pcm_f32le"}}}, "session.audio.output.format"),
    ({"input_audio_format": "opus"}, "session.input_audio_format"),
    ({"output_audio_format": "pcm_f32le"}, "session.output_audio_format"),
    ({"response_format": "mp3"}, "session.response_format"),
    ({"sample_rate_hz": 1}, "session.sample_rate_hz"),
    ({"sample_rate": "x"}, "session.sample_rate"),
]


def append(**fields: Any) -> dict[str, Any]:
    return {"type": "input_audio_buffer.append", **fields}


def truncate(**fields: Any) -> dict[str, Any]:
    named = {"item_id": "x", "audio_end_ms": 0}
    return {"type": "conversation.item.truncate", **named, **fields}


def item(*content: Any) -> dict[str, Any]:
    return {"type": "conversation.item.create", "item": {"type": "message", "content": content}}


EVENTS: list[tuple[dict[str, Any], str]] = [
    ({"type": 7}, "type"),
    ({"type": "session.update", "session": 7}, "session"),
    ({"type": "session.update", "session": {"model": "another"}}, "session.model"),
    ({"type": "session.heartbeat", "event_id": 7}, "event_id"),
    ({"type": "session.heartbeat", "event_id": "x" * 513}, "event_id"),
    ({"type": "conversation.item.truncate", "item_id": "x", "audio_end_ms": -1}, "audio_end_ms"),
    *(
        ({"type": "session.event_ack", "server_event_seq": seq}, "server_event_seq")
        for seq in NO_INTS
    ),
    *((truncate(content_index=index), "content_index") for index in NO_INTS),
    (append(audio="***"), "audio"),
    (append(audio=NAN, format="pcm_f32le"), "audio"),
    (append(audio=PCM, sample_rate_hz=1), "sample_rate_hz"),
    (append(audio=PCM, format="opus"), "format"),
    (append(audio=PCM, format={"type": "audio/pcm", "rate": 1}), "format.rate"),
    (item(7), "item.content"),
    (item({"type": "input_text"}, {"type": "input_audio", "audio": "*"}), "item.content.1.audio"),
    (item(*2 * [{"type": "input_audio", "audio": PCM}]), "item.content.1.audio"),
]


@pytest.mark.parametrize(("sent", "where"), SESSIONS, ids=[where for _, where in SESSIONS])
async def test_a_session_field_is_named_by_its_path(sent: dict[str, Any], where: str) -> None:
    async with serving(FakeEngine()) as server:
        for first in ([], [{"type": "session.update", "session": {}}]):
            async with server.connect(MOODS[0]) as client:
                for event in [*first, {"type": "session.update", "session": sent}]:
                    await client.socket.send_json(event)
                error = (await client.until("error"))["error"]
                assert (error["type"], error["param"]) == ("invalid_request_error", where)


@pytest.mark.parametrize(("event", "where"), EVENTS)
async def test_an_events_field_is_named_by_its_path(event: dict[str, Any], where: str) -> None:
    async with serving(FakeEngine()) as server, server.connect(MOODS[0] + "&model=m") as client:
        await client.socket.send_json(event)
        error = (await client.until("error"))["error"]
        assert (error["type"], error["param"]) == ("invalid_request_error", where)


async def test_an_id_as_long_as_it_may_be_is_echoed() -> None:
    async with serving(FakeEngine()) as server, server.connect(MOODS[0]) as client:
        await client.send("barge_in", event_id="x" * 512)
        error = (await client.until("error"))["error"]
        assert (error["code"], error["event_id"]) == ("barge_in_unsupported", "x" * 512)


@pytest.mark.parametrize("path", MOODS)
@pytest.mark.parametrize("key", sorted(PRIVATE_KEYS))
async def test_private_keys_are_refused_at_open_and_at_update(
    key: str, path: str
) -> None:  # contract: B4
    refused = {"extra_body": {key: 1}}
    told = ("invalid_duplex_runtime_config", f"session.extra_body.{key}", "evt_x")
    engine = FakeEngine()
    async with serving(engine) as server:
        async with server.connect(path) as client:
            await client.send("session.update", event_id="evt_x", session=refused)
            await client.rest()
            assert client.types == ["error"]
            error = client.seen[0]["error"]
            assert (error["code"], error["param"], error["event_id"]) == told
            assert engine.stats().used == 0
        async with server.connect(path) as client:
            await client.send("session.update", session={})
            await client.until("session.updated")
            await client.send("session.update", event_id="evt_x", session=refused)
            error = (await client.until("error"))["error"]
            assert (error["code"], error["param"], error["event_id"]) == told
            await client.send("session.heartbeat")
            await client.until("session.heartbeat_ack")


def test_the_private_keys_are_four() -> None:  # contract: B4
    names = {"prefill_slots", "model_path", "voice_prompt", "persona"}
    assert PRIVATE_KEYS == {f"personaplex_{name}" for name in names}
