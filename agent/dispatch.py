"""What a dispatch asks for: the metadata of a job or a token, checked (contract H6).

Plain JSON in, a session spec or one readable refusal out; it knows no room.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from agent.errors import SessionError
from agent.presence import EVERYBODY
from agent.text import is_text
from model import Sampling, SessionSpec

TEXT_KEYS = ("voice", "persona", "heard")
KEYS = ("voice", "persona", "seed", "heard")
LARGEST_SEED = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Defaults:
    """What applies where the metadata is silent, and what it may choose from."""

    spec: SessionSpec
    voices: tuple[str, ...]
    heard: str = EVERYBODY
    allow_sampling: bool = False


@dataclass(frozen=True, slots=True)
class Dispatch:
    """One call as asked for."""

    spec: SessionSpec
    heard: str


def parse_dispatch(metadata: str, defaults: Defaults) -> Dispatch:
    """Raises `SessionError` for unknown keys and bad values, with the choices in its message."""
    asked = read_metadata(metadata)
    voice = asked.get("voice") or defaults.spec.voice
    if voice not in defaults.voices:
        choices = ", ".join(defaults.voices)
        raise SessionError(
            "invalid_voice", f"there is no voice {voice!r}; there are {choices}", param="voice"
        )
    return Dispatch(
        spec=SessionSpec(
            voice=voice,
            persona=asked.get("persona") or defaults.spec.persona,
            sampling=_sampling(asked, defaults),
        ),
        heard=asked.get("heard") or defaults.heard,
    )


def read_metadata(metadata: str) -> dict[str, Any]:
    """The keys, each known and of its type; raises as above, knowing no server's voices."""
    asked = _json_object(metadata)
    unknown = sorted(set(asked) - set(KEYS))
    if unknown:
        raise _refused(f"unknown key {unknown[0]!r}; there are {', '.join(KEYS)}", unknown[0])
    for key in TEXT_KEYS:
        _check_text(asked, key)
    return asked


def _json_object(metadata: str) -> dict[str, Any]:
    if not metadata.strip():
        return {}
    try:
        asked = json.loads(metadata)
    except (ValueError, RecursionError):
        raise _refused("the dispatch metadata is no JSON", None) from None
    if not isinstance(asked, dict):
        raise _refused("the dispatch metadata is no JSON object", None)
    return asked


def _check_text(asked: dict[str, Any], key: str) -> None:
    value = asked.get(key, "")
    if not isinstance(value, str):
        raise _refused(f"{key!r} is {value!r}; it must be a text", key)
    if not is_text(value):
        raise _refused(f"{key!r} is no valid text: it holds half a character", key)


def _sampling(asked: dict[str, Any], defaults: Defaults) -> Sampling | None:
    if "seed" not in asked:
        return defaults.spec.sampling
    seed = asked["seed"]
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= LARGEST_SEED:
        raise _refused(f"'seed' is {seed!r}; it must be a whole number from 0 on", "seed")
    if not defaults.allow_sampling:
        raise SessionError(
            "sampling_not_allowed",
            "'seed' needs a worker that was started with --allow-sampling",
            param="seed",
        )
    return Sampling(seed=seed)


def _refused(message: str, param: str | None) -> SessionError:
    return SessionError("invalid_session_config", message, param=param)
