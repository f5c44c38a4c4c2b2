"""What docs/api.md lists is there: each client event is handled, each server event is sent."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from agent.manager import SessionManager
from agent.realtime import events, server_events
from agent.realtime.config import STOCK_MOOD, Limits
from agent.realtime.connection import Connection
from agent.realtime.user_speech import UserSpeech
from tests.fakes.engine import FakeEngine
from tests.unit.agent.session.calls import frames

pytestmark = pytest.mark.unit

REALTIME = Path(events.__file__).parent
SAMPLES = {dict[str, Any]: {}, str: "x", int: 0, float: 0.0, Any: ""}
OPENERS = {"session.create", "session.resume"}


def models(module: Any, base: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for _, model in inspect.getmembers(module, inspect.isclass):
        if issubclass(model, base) and "type" in model.model_fields:
            yield model


def client_events() -> dict[str, dict[str, Any]]:
    """The least that each client event, and each other name of one, may hold."""
    least = {}
    for model in models(events, events.ClientEvent):
        fields = {
            name: SAMPLES[info.annotation]  # type: ignore[index]
            for name, info in model.model_fields.items()
            if info.is_required() and name != "type"
        }
        least[get_args(model.model_fields["type"].annotation)[0]] = fields
    return least | {alias: least[name] for alias, name in events.TYPE_ALIASES.items()}


async def connection(sent: list[dict[str, Any]]) -> Connection:
    manager = SessionManager(FakeEngine())
    limits = Limits(manager.engine.voices, manager.default_spec)

    def keep(text: str, *, audio: bool = False) -> None:
        sent.append(json.loads(text))

    made = Connection(manager, STOCK_MOOD, limits, keep)
    await made.open({}, explicit=False)
    return made


@pytest.mark.parametrize("name", client_events())
async def test_each_client_event_is_handled(name: str) -> None:
    sent: list[dict[str, Any]] = []
    opened = await connection(sent)
    opened.receive({"type": name, **client_events()[name]})
    codes = [event["error"]["code"] for event in sent if event["type"] == "error"]
    assert ("unknown_event" in codes) == (name == "session.create")
    opened.close("done")
    await opened.session.wait_closed()  # type: ignore[union-attr]


def test_each_server_event_is_sent_by_something() -> None:
    senders = "".join(
        path.read_text() for path in REALTIME.glob("*.py") if path.name != "server_events.py"
    )
    names = [model.__name__ for model in models(server_events, server_events.ServerEvent)]
    assert not [n for n in names if f"out.{n}(" not in senders and f"{n}(" not in senders]


async def test_turn_signals_that_name_a_command_carry_it_out() -> None:  # contract: E4
    sent: list[dict[str, Any]] = []
    opened = await connection(sent)
    session = opened.session
    assert session is not None
    for signal in ("response.cancel", "input.cancel"):
        opened.receive({"type": "response.create"})
        session.append(frames(2)[:100])
        opened.receive({"type": "turn.signal", "event": signal})
        assert sent[-1]["type"] == "turn.event" and not session.responding
    assert session._intake.pad(0.0) is False, "what was appended is forgotten"
    opened.receive({"type": "turn.signal", "event": "user_started_speaking"})
    assert sent[-1]["turn_state"] == "idle"


@pytest.mark.parametrize("chunk", [5, 37, 4800])
def test_speech_is_labelled_alike_in_any_chunking(chunk: int) -> None:  # contract: C2 F2
    sound = [frames(5), frames(10, 0.2), frames(10)]
    heard = UserSpeech(silence_ms=400)
    labels = []
    for samples in sound:
        for start in range(0, samples.size, chunk):
            labels += heard.hear(samples[start : start + chunk])
    started, stopped = labels
    assert started.audio_start_ms == 400 and stopped.audio_end_ms == 1200


class Stored:
    """A conversation on the wire of which only the order of items is looked at."""

    def __init__(self, connection: Connection, sent: list[dict[str, Any]]) -> None:
        self.connection, self.sent = connection, sent

    def create(self, item_id: str, after: str | None = None) -> dict[str, Any]:
        """The first event that the creation caused."""
        item = {"id": item_id, "type": "message", "role": "user", "content": []}
        before = len(self.sent)
        event = {"type": "conversation.item.create", "item": item, "event_id": f"evt_{item_id}"}
        self.connection.receive(event | ({"previous_item_id": after} if after else {}))
        return self.sent[before]


async def test_items_stand_where_they_were_asked_to() -> None:
    sent: list[dict[str, Any]] = []
    stored = Stored(await connection(sent), sent)
    assert stored.create("b")["previous_item_id"] is None
    assert stored.create("d")["previous_item_id"] == "b"
    assert stored.create("a", "root")["previous_item_id"] is None
    assert stored.create("c", "b")["previous_item_id"] == "b"
    assert stored.create("e")["previous_item_id"] == "d"
    assert stored.create("between", "a")["previous_item_id"] == "a"
    assert not [event for event in sent if event["type"] == "error"]


async def test_items_of_a_taken_id_or_after_none_are_refused_with_their_audio() -> None:
    sent: list[dict[str, Any]] = []
    opened = await connection(sent)
    stored = Stored(opened, sent)
    stored.create("a")
    assert stored.create("root")["error"]["code"] == "item_create_duplicate_item_id"
    taken = stored.create("a")["error"]
    assert (taken["code"], taken["param"]) == ("item_create_duplicate_item_id", "item.id")
    nowhere = stored.create("b", "never")["error"]
    assert (nowhere["code"], nowhere["param"]) == ("item_not_found", "previous_item_id")
    assert nowhere["event_id"] == "evt_b"
    item = {"id": "a", "type": "message", "content": [{"type": "input_audio", "audio": "AAAA"}]}
    opened.receive({"type": "conversation.item.create", "item": item})
    assert sent[-1]["error"]["code"] == "item_create_duplicate_item_id"
    assert opened.session is not None and not opened.session.bound, "its audio was not heard"
