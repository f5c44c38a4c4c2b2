"""Conversation items and playback on the wire: what is stored, answered and acknowledged."""

from __future__ import annotations

from typing import Any

from agent.errors import SessionError
from agent.realtime import events as client
from agent.realtime import server_events as out
from agent.realtime.conversation import MAX_ITEM_ID, Conversation, Item, new_item_id
from agent.realtime.projection import Projection
from agent.session import Session


class Items:
    """The item events of one connection."""

    def __init__(self, projection: Projection, conversation: Conversation) -> None:
        self._projection = projection
        self._conversation = conversation

    def committed(self, session: Session) -> None:
        """Acknowledge a commit as a user's message; the model has heard it as audio."""
        item = Item.of(
            {
                "id": new_item_id(),
                "object": "realtime.item",
                "type": "message",
                "role": "user",
                "status": "completed",
                "content": [{"type": "input_audio", "transcript": None}],
            }
        )
        previous = self._projection.item_added(item)
        event = {
            "type": "input.committed",
            "session_id": session.id,
            "turn_id": 0,
            "epoch": session.epoch,
            "history_len": len(self._conversation),
            "native_audio": True,
            "message": None,
        }
        self._projection.emit(
            out.InputCommitted(previous_item_id=previous, item_id=item.id, event=event)
        )
        self._projection.item_done(previous, item)

    def check(self, event: client.ItemCreate) -> tuple[Item, dict[str, Any]]:
        """A new item as it is kept, and its audio by where it stands; refuses first."""
        item = event.item
        if not isinstance(item.get("type"), str):
            raise SessionError("bad_event", "item.type must be a string", param="item.type")
        if not isinstance(item.get("id", ""), str):
            raise SessionError("bad_event", "item.id must be a string", param="item.id")
        if len(item.get("id", "")) > MAX_ITEM_ID:
            raise SessionError(
                "bad_event", f"item.id has at most {MAX_ITEM_ID} characters", param="item.id"
            )
        content = item.get("content") or []
        if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
            raise SessionError("bad_event", "item.content must be a list", param="item.content")
        stored = Item.of(
            {
                **item,
                "id": item.get("id") or new_item_id(),
                "object": "realtime.item",
                "status": "completed",
                "content": [
                    {key: value for key, value in part.items() if key != "audio"}
                    for part in content
                ],
            }
        )
        self._conversation.check_new(stored, event.previous_item_id)
        sound = {
            f"item.content.{number}.audio": part["audio"]
            for number, part in enumerate(content)
            if part.get("audio") is not None
        }
        if len(sound) > 1:
            # Appended one by one, the first would be kept where a later one is refused.
            raise SessionError("bad_event", "an item carries one sound", param=list(sound)[1])
        return stored, sound

    def create(self, item: Item, after: str | None) -> None:
        """Keep an item and say so; its audio has been appended, its text is not read."""
        previous = self._projection.item_added(item, after)
        self._projection.item_done(previous, item)

    def retrieve(self, item_id: str) -> None:
        self._projection.emit(out.ItemRetrieved(item=self._conversation.get(item_id).json))

    def delete(self, item_id: str) -> None:
        self._conversation.delete(item_id)
        self._projection.emit(out.ItemDeleted(item_id=item_id))

    def truncate(self, event: client.ItemTruncate) -> None:
        """Note how much was heard; beyond the audio's end it is clamped."""
        if not self._conversation.get(event.item_id).answer:
            raise SessionError("bad_event", "only answers are truncated", param="item_id")
        ledger = self._conversation.ledger(None, event.item_id)
        ledger.acknowledge(event.audio_end_ms, None)
        self._projection.emit(
            out.ItemTruncated(
                item_id=event.item_id,
                content_index=event.content_index,
                audio_end_ms=min(int(event.audio_end_ms), ledger.sent_ms),
            )
        )

    def acknowledge(self, event: client.PlaybackAck, session: Session) -> None:
        """Note what was played, and answer with the ledger."""
        ledger = self._conversation.ledger(event.response_id, event.item_id)
        ledger.acknowledge(event.played_ms, event.committed_ms)
        body = {
            "type": "playback.acknowledged",
            "session_id": session.id,
            "epoch": session.epoch,
            "response_id": ledger.response_id,
            "item_id": ledger.item_id,
            "played_ms": ledger.played_ms,
            "committed_ms": ledger.committed_ms,
            "truncate": event.truncate,
            "playback": ledger.wire(),
            "history_committed": False,
        }
        self._projection.emit(out.PlaybackAcknowledged(event=body))
