"""How many bytes a client can make the server keep, and that a refusal loses nothing else."""

from __future__ import annotations

import base64
from typing import Any

import pytest

import agent.auth as auth
import agent.realtime.conversation as conversation
from agent.auth import ClientSecrets
from agent.errors import Refused, SessionError
from agent.http import MAX_BODY_BYTES
from agent.realtime.conversation import MAX_ITEM_ID, Conversation, Item
from agent.realtime.events import MAX_EVENT_BYTES
from agent.realtime.fields import MAX_FIELDS_BYTES
from model import FRAME_SAMPLES
from tests.fakes.engine import FakeEngine
from tests.fakes.server import Client, Server, serving

pytestmark = pytest.mark.unit

STOCK = "/v1/realtime?model=m"
SECRETS = "/v1/realtime/client_secrets"
MIB = 2**20


def message(name: str, size: int) -> dict[str, Any]:
    text = {"type": "input_text", "text": "x" * size}
    return {"id": name, "type": "message", "role": "user", "content": [text]}


def kept_message(name: str, size: int) -> Item:
    return Item.of(message(name, size))


async def created(client: Client, item: dict[str, Any]) -> None:
    await client.send("conversation.item.create", item=item)
    await client.until("conversation.item.done")


async def refused(client: Client, code: str, param: str) -> None:
    """The message before this is answered by this error, and the session goes on."""
    await client.send("session.heartbeat")
    event = await client.until("error", "session.heartbeat_ack")
    assert event["type"] == "error"
    error = event["error"]
    assert (error["code"], error["param"], error["event_id"]) == (code, param, "evt_x")
    await client.until("session.heartbeat_ack")


async def test_items_are_kept_up_to_a_bound_and_the_one_beyond_is_refused() -> None:
    async with serving(FakeEngine()) as server, server.connect(STOCK) as client:
        await created(client, message("a", 8 * MIB))
        await created(client, message("b", 7 * MIB))
        sound = {
            "type": "input_audio",
            "audio": base64.b64encode(bytes(2 * FRAME_SAMPLES)).decode(),
        }
        item = message("c", 2 * MIB)
        item["content"].append(sound)
        await client.send("conversation.item.create", event_id="evt_x", item=item)
        await refused(client, "event_too_large", "item")
        assert server.manager.sessions[0].counters.accepted == 0, "its sound was not heard"
        for name in ("a", "b"):
            await client.send("conversation.item.retrieve", item_id=name)
            assert (await client.until("conversation.item.retrieved"))["item"]["id"] == name
        await client.send("conversation.item.delete", item_id="a")
        await created(client, message("c", 2 * MIB))


def test_the_largest_event_fits_as_an_item() -> None:
    Conversation().check_new(kept_message("a", MAX_EVENT_BYTES), None)


async def test_the_id_of_an_item_is_bounded_for_the_next_one_repeats_it() -> None:
    async with serving(FakeEngine()) as server, server.connect(STOCK) as client:
        await created(client, message("a" * MAX_ITEM_ID, 1))
        item = message("a" * (MAX_ITEM_ID + 1), 1)
        await client.send("conversation.item.create", event_id="evt_x", item=item)
        await refused(client, "bad_event", "item.id")
        await created(client, message("b", 1))
        previous = client.seen[-1]["previous_item_id"]
        assert previous == "a" * MAX_ITEM_ID


def test_what_is_forgotten_replaced_or_removed_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "MAX_ITEMS", 2)
    monkeypatch.setattr(conversation, "MAX_BYTES", 10_000)
    kept = Conversation()
    for name in "abcd":
        kept.check_new(kept_message(name, 3_000), None)
        kept.add(kept_message(name, 3_000))
    kept.update(kept_message("d", 6_000))
    with pytest.raises(SessionError):
        kept.check_new(kept_message("e", 1_000), None)
    kept.update(kept_message("d", 0))
    kept.check_new(kept_message("e", 6_000), None)
    for name in "cd":
        kept.delete(name)
    kept.check_new(kept_message("e", 9_000), None)


def test_items_stand_in_the_order_in_which_they_were_put() -> None:
    kept = Conversation()
    placed = [("b", None), ("d", "b"), ("c", "b"), ("a", "root"), ("e", "d"), ("f", None)]
    before = [kept.add(kept_message(name, 1), after) for name, after in placed]
    assert before == [None, "b", "b", None, "d", "e"]
    order = []
    while kept.last_id is not None:
        order.append(kept.last_id)
        kept.delete(kept.last_id)
    assert order == [*"fedcba"]


async def test_fields_of_a_session_are_kept_up_to_a_bound() -> None:
    large = "x" * (MAX_FIELDS_BYTES // 2)
    async with serving(FakeEngine()) as server, server.connect(STOCK) as client:
        await client.until("session.updated")
        await client.send("session.update", session={"metadata": {"a": large}})
        await client.until("session.updated")
        sent = {"tools": [large], "speed": 2.0}
        await client.send("session.update", event_id="evt_x", session=sent)
        await refused(client, "invalid_session_config", "session")
        await client.send("session.update", session={"metadata": {"b": large}})
        session = (await client.until("session.updated"))["session"]
        assert (session["metadata"], session["speed"]) == ({"b": large}, 1.0)
        assert "tools" not in session


async def minted(server: Server, size: int) -> tuple[int, dict[str, Any], str | None]:
    body = {"session": {"metadata": {"a": "x" * size}}}
    async with server.http.post(server.url + SECRETS, json=body) as response:
        return response.status, await response.json(), response.headers.get("Retry-After")


async def test_client_secrets_keep_sessions_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    assert auth.MAX_SECRETS_BYTES >= MAX_BODY_BYTES
    monkeypatch.setattr(auth, "MAX_SECRETS_BYTES", 10_000)
    async with serving(FakeEngine()) as server:
        status, first, _ = await minted(server, 8_000)
        assert status == 200
        status, body, retry_after = await minted(server, 8_000)
        error = body["error"]
        assert (status, error["code"], error["param"]) == (503, "resource_exhausted", "session")
        assert error["retryable"] and retry_after
        assert (await minted(server, 100))[0] == 200


def test_a_secret_that_is_refused_takes_none_that_was_given_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(auth, "MAX_SECRETS", 3)
    monkeypatch.setattr(auth, "MAX_SECRETS_BYTES", 1_000)
    now = 0.0
    secrets = ClientSecrets(lambda: now)
    session = {"metadata": {"a": "x" * 400}}
    given = [secrets.mint(60, session)[0], secrets.mint(120, session)[0]]
    with pytest.raises(Refused):
        secrets.mint(60, session)
    given.append(secrets.mint(120, {})[0])
    with pytest.raises(Refused):
        secrets.mint(60, {})
    assert [secrets.session_of(value) for value in given] == [session, session, {}]
    now = 60.0
    assert secrets.session_of(given[0]) is None
    assert secrets.session_of(secrets.mint(60, session)[0]) == session
