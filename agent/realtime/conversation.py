"""Items of a conversation and how much of each answer was played: bookkeeping for clients.

The model keeps its own memory in its own state; nothing here changes what it says.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from agent.errors import SessionError
from agent.realtime.encoded import Encoded, encode

ROOT = "root"
"""The place before the first item, where a client names it as the item before a new one."""
MAX_ITEM_ID = 512
"""Characters; the item after it repeats them."""
MAX_ITEMS = 2_000
"""Oldest items are forgotten beyond this, so that a long call does not grow for ever."""
MAX_BYTES = 16 * 1024 * 1024
"""Of all items as JSON: the largest event still fits, and nobody reads more than that back."""


@dataclass(slots=True)
class Playback:
    """The ledger of one response, in milliseconds; every value only grows."""

    response_id: str
    generated_ms: int = 0
    sent_ms: int = 0
    played_ms: int = 0
    committed_ms: int = 0

    @property
    def item_id(self) -> str:
        return item_id_of(self.response_id)

    def sent(self, milliseconds: int) -> None:
        self.generated_ms = self.sent_ms = milliseconds

    def acknowledge(self, played_ms: float, committed_ms: float | None) -> None:
        played = min(int(played_ms), self.sent_ms)
        committed = played if committed_ms is None else min(int(committed_ms), self.sent_ms)
        self.played_ms = max(self.played_ms, played)
        self.committed_ms = max(self.committed_ms, committed)

    def wire(self) -> dict[str, int]:
        return {
            "generated_ms": self.generated_ms,
            "sent_ms": self.sent_ms,
            "played_ms": self.played_ms,
            "committed_ms": self.committed_ms,
        }


def item_id_of(response_id: str) -> str:
    return f"item_{response_id}"


def new_item_id() -> str:
    return f"item_{uuid.uuid4().hex}"


@dataclass(frozen=True, slots=True)
class Item:
    """An item as it is kept and sent; as objects, many small values would be many times larger."""

    id: str
    answer: bool
    json: Encoded

    @classmethod
    def of(cls, item: dict[str, Any]) -> Item:
        return cls(item["id"], item.get("role") == "assistant", encode(item))

    @property
    def size(self) -> int:
        """In bytes."""
        return len(self.json.text)


class Conversation:
    """The history of one session, in order."""

    def __init__(self) -> None:
        self._items: dict[str, Item] = {}
        self._bytes = 0
        self._playback: dict[str, Playback] = {}

    @property
    def last_id(self) -> str | None:
        return next(reversed(self._items), None)

    def __len__(self) -> int:
        return len(self._items)

    def check_new(self, item: Item, after: str | None) -> None:
        """Refuse an id that is taken, a place that there is not, and more than can be kept."""
        if item.id in self._items or item.id == ROOT:
            raise SessionError(
                "item_create_duplicate_item_id", "an item has this id already", param="item.id"
            )
        if after is not None and after != ROOT and after not in self._items:
            raise SessionError(
                "item_not_found", "no such item in this conversation", param="previous_item_id"
            )
        if self._bytes + item.size > MAX_BYTES:
            raise SessionError(
                "event_too_large", f"all items have at most {MAX_BYTES} bytes", param="item"
            )

    def add(self, item: Item, after: str | None = None) -> str | None:
        """Put a new item at the end or after another one; the id of the one before it."""
        previous = self.last_id if after is None else after
        if previous == ROOT:
            previous = None
        at_end = previous == self.last_id
        self._keep(item)
        if not at_end:
            self._move(item.id, previous)
        if len(self._items) > MAX_ITEMS:
            self._forget(next(iter(self._items)))
        return previous

    def _keep(self, item: Item) -> None:
        replaced = self._items.get(item.id)
        self._bytes += item.size - (replaced.size if replaced else 0)
        self._items[item.id] = item

    def _forget(self, item_id: str) -> None:
        self._bytes -= self._items.pop(item_id).size

    def _move(self, item_id: str, previous: str | None) -> None:
        order = [one for one in self._items if one != item_id]
        at = 0 if previous is None else 1 + order.index(previous)
        order.insert(at, item_id)
        self._items = {one: self._items[one] for one in order}

    def update(self, item: Item) -> None:
        """Take a newer state of an item, unless it has been removed."""
        if item.id in self._items:
            self._keep(item)

    def delete(self, item_id: str) -> None:
        self.get(item_id)
        self._forget(item_id)

    def get(self, item_id: str) -> Item:
        """An item, or `item_not_found`."""
        try:
            return self._items[item_id]
        except KeyError:
            raise SessionError(
                "item_not_found", "no such item in this conversation", param="item_id"
            ) from None

    def play(self, response_id: str) -> Playback:
        """Open the ledger of a response."""
        ledger = self._playback[response_id] = Playback(response_id)
        if len(self._playback) > MAX_ITEMS:
            del self._playback[next(iter(self._playback))]
        return ledger

    def ledger(self, response_id: str | None, item_id: str | None) -> Playback:
        """The ledger that an acknowledgement means; without ids the latest response."""
        if response_id is None and item_id is None:
            latest = next(reversed(self._playback), None)
            found = self._playback.get(latest) if latest else None
        elif response_id is None:
            found = next((one for one in self._playback.values() if one.item_id == item_id), None)
        else:
            found = self._playback.get(response_id)
        if found is None:
            raise SessionError("playback_item_not_found", "no such response was played")
        if item_id is not None and found.item_id != item_id:
            raise SessionError(
                "playback_item_mismatch", "item_id belongs to another response", param="item_id"
            )
        return found
