"""What a client sent is encoded once, however often short messages have it sent back."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import agent.realtime.encoded as encoded
from agent.realtime.encoded import dump_json, encode
from tests.fakes.engine import FakeEngine
from tests.fakes.server import PATIENCE_S, Client, serving, silence

pytestmark = pytest.mark.unit

STOCK, DUPLEX = "/v1/realtime?model=m", "/v1/duplex?model=m"
MANY: list[dict[str, Any]] = [{} for _ in range(9_000)]
SIZE = len(json.dumps(MANY, separators=(",", ":")))
REPEATS = 10
ITEM = {"id": "a", "type": "message", "role": "user", "x": MANY}
UPDATE: dict[str, Any] = {"type": "session.update", "session": {"speed": 1.5}}
RETRIEVE = {"type": "conversation.item.retrieve", "item_id": "a"}
TRUNCATE = {"type": "conversation.item.truncate", "item_id": "a", "audio_end_ms": 1}
RESPONSE = {"type": "response.create"}
CANCEL = {"type": "response.cancel"}


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of all texts that are encoded."""
    lengths: list[int] = []
    real = encoded._ENCODE

    def counted(value: object) -> str:
        text = real(value)
        lengths.append(len(text))
        return text

    monkeypatch.setattr(encoded, "_ENCODE", counted)
    return lengths


async def say(client: Client, *messages: dict[str, Any]) -> None:
    """Send these, and read until the last one is answered."""
    for message in messages:
        await client.socket.send_str(json.dumps(message))
    await client.send("session.heartbeat")
    await client.until("session.heartbeat_ack")


async def raw(client: Client, name: str) -> str:
    """The text of the next event of this type."""
    async with asyncio.timeout(PATIENCE_S):
        while f'"{name}"' not in (text := await client.socket.receive_str()):
            pass
    return text


@pytest.mark.parametrize(
    ("kept", "short", "shown", "times"),
    [
        ({**UPDATE, "session": {"x": MANY}}, [UPDATE], "session.updated", 1),
        (
            {**UPDATE, "session": {"audio": {"input": {"turn_detection": {"x": MANY}}}}},
            [UPDATE],
            "session.updated",
            2,  # the default of the flat name repeats it
        ),
        ({**UPDATE, "session": {"metadata": {"x": MANY}}}, [RESPONSE, CANCEL], "response.done", 2),
        (
            {"type": "conversation.item.create", "item": ITEM},
            [RETRIEVE],
            "conversation.item.retrieved",
            1,
        ),
        ({"type": "conversation.item.create", "item": ITEM}, [TRUNCATE], "error", 1),
    ],
)
async def test_what_is_kept_is_encoded_once_and_never_by_short_messages(
    kept: dict[str, Any],
    short: list[dict[str, Any]],
    shown: str,
    times: int,
    made: list[int],
) -> None:
    async with serving(FakeEngine()) as server, server.connect(STOCK) as client:
        await client.until("session.updated")
        await say(client, kept)
        assert sum(length >= SIZE for length in made) == times
        made.clear()
        await say(client, *short * REPEATS)
        assert max(made) < SIZE
    assert len(client.all(shown)) >= REPEATS


def test_an_object_with_members_that_are_encoded_already_is_the_same_object() -> None:
    value = {"type": "x", "a": [1, "ü"], "b": {"c": None}, "d": {}}
    for names in ([], ["a"], ["a", "b"], list(value)):
        mixed = {name: encode(part) if name in names else part for name, part in value.items()}
        assert json.loads(dump_json(mixed)) == value
    assert json.loads(encode({}).plus("a", 1).text) == {"a": 1}
    assert json.loads(encode({"b": encode(2)}).plus("a", [1]).text) == {"b": 2, "a": [1]}


async def test_metadata_of_the_session_is_in_its_responses_beside_the_entry_of_the_server() -> None:
    sent = {"a": {"b": [1]}, "duplex_event": "mine"}
    for path, own in ((STOCK, False), (DUPLEX, True)):
        async with serving(FakeEngine()) as server, server.connect(path) as client:
            await client.until("session.updated")
            await say(client, {**UPDATE, "session": {"metadata": sent}})
            await client.append(silence())
            await client.send("response.create")
            text = await raw(client, "response.created")
            assert text.count('"duplex_event"') == 1
            metadata = json.loads(text)["response"]["metadata"]
            assert metadata["a"] == {"b": [1]}
            assert (metadata["duplex_event"] == "mine") is not own
