"""A session's fields as the client sent them: merged over updates, bounded, ready to be echoed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.errors import SessionError
from agent.realtime.encoded import Encoded, dump_json, encode

_OWNED_BY_SERVER = frozenset({"type", "id", "session_id", "extra_body", "capabilities", "state"})
MAX_FIELDS = 100
MAX_FIELDS_BYTES = 1024 * 1024
"""Of all fields as JSON: what one HTTP body may bring. A session keeps and echoes them all."""


@dataclass(frozen=True, slots=True)
class Fields:
    """The values by their names, and as the JSON that every echo repeats."""

    values: Mapping[str, Any] = field(default_factory=dict)
    echo: Mapping[str, Encoded] = field(default_factory=dict)
    turn_detection: Encoded = field(default_factory=lambda: encode(None))
    """The client's wish, wherever it stands."""

    def updated(self, sent: Mapping[str, Any]) -> Fields:
        """These fields with what was sent, which alone is encoded; `invalid_session_config`."""
        kept = {key: value for key, value in sent.items() if key not in _OWNED_BY_SERVER}
        values = {**self.values, **kept}
        if len(values) > MAX_FIELDS:
            raise SessionError("invalid_session_config", f"a session has {MAX_FIELDS} fields")
        echo = {**self.echo, **{key: encode(value) for key, value in kept.items()}}
        if len(dump_json(echo)) > MAX_FIELDS_BYTES:
            raise SessionError(
                "invalid_session_config",
                f"the fields of a session have at most {MAX_FIELDS_BYTES} bytes",
                param="session",
            )
        wishes = kept.keys() & {"audio", "turn_detection"}
        wish = encode(turn_detection_of(values)) if wishes else self.turn_detection
        return Fields(values, echo, wish)


def turn_detection_of(values: Mapping[str, Any]) -> object:
    """The client's wish, under its nested or its flat name."""
    audio = values.get("audio")
    nested = audio.get("input") if isinstance(audio, dict) else None
    if isinstance(nested, dict) and "turn_detection" in nested:
        return nested["turn_detection"]
    return values.get("turn_detection")
