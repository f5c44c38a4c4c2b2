"""JSON text: made once of what a client sent, and put as it is into every event that carries it.

Otherwise a client that sent many small values once could have them encoded again by short messages
as often as it likes, while all other calls wait.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_ENCODE = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class Encoded:
    """A JSON value as its text, which is ASCII: a character is a byte."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def plus(self, name: str, value: object) -> Encoded:
        """This object with one more member."""
        return Encoded(_object(self.text[1:-1], _member(name, _ENCODE(value))))


def encode(value: object) -> Encoded:
    """A value; an object's members that are encoded already go in as they are."""
    return Encoded(dump_json(value) if isinstance(value, dict) else _ENCODE(value))


def dump_json(event: Mapping[str, Any]) -> str:
    """One object as text; members that are encoded already go in as they are, after the others."""
    ready = {name: part.text for name, part in event.items() if isinstance(part, Encoded)}
    if not ready:
        return _ENCODE(event)
    others = _ENCODE({name: part for name, part in event.items() if name not in ready})
    return _object(others[1:-1], *(_member(name, text) for name, text in ready.items()))


def _member(name: str, text: str) -> str:
    return f"{_ENCODE(name)}:{text}"


def _object(*members: str) -> str:
    return f"{{{','.join(filter(None, members))}}}"
