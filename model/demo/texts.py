"""The texts of a closed-domain agent: what it says, and what people may ask.

Reads and checks `texts.toml`; knows nothing of audio.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TEXTS = Path(__file__).with_name("texts.toml")
MIN_WORDINGS = 3


class InvalidTexts(ValueError):
    """The file cannot make an agent; the message, one line, names it and the entry."""


@dataclass(frozen=True)
class Persona:
    name: str
    prompt: str
    also: tuple[str, ...]
    greeting: str

    @property
    def prompts(self) -> tuple[str, ...]:
        return (self.prompt, *self.also)


@dataclass(frozen=True)
class Topic:
    name: str
    ask: tuple[str, ...]
    say: str


@dataclass(frozen=True)
class Fallback:
    """Said to speech of at most `up_to_seconds`; the last one has no limit."""

    say: str
    up_to_seconds: float


@dataclass(frozen=True)
class Unknown:
    """Sentences without an answer; `test` is never trained on."""

    train: tuple[str, ...]
    test: tuple[str, ...]


@dataclass(frozen=True)
class Texts:
    personas: tuple[Persona, ...]
    topics: tuple[Topic, ...]
    fallbacks: tuple[Fallback, ...]
    silence_prompt: str
    silence_seconds: float
    off_topic: Unknown
    near_miss: Unknown
    general: tuple[str, ...]

    @property
    def spoken(self) -> tuple[str, ...]:
        """Everything that the agent may say, each once, in file order."""
        return (
            *(p.greeting for p in self.personas),
            self.silence_prompt,
            *(f.say for f in self.fallbacks),
            *(t.say for t in self.topics),
        )

    @property
    def questions(self) -> tuple[tuple[str, str], ...]:
        """Every known wording with its answer."""
        return tuple((ask, topic.say) for topic in self.topics for ask in topic.ask)

    def fallback(self, spoken_seconds: float) -> str:
        """The answer to `spoken_seconds` of speech that is not known."""
        return next(f.say for f in self.fallbacks if spoken_seconds <= f.up_to_seconds)


def load_texts(path: Path = TEXTS) -> Texts:
    """Read and check a texts file. Raises `InvalidTexts`."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
        texts = _parse(raw)
        _check(texts)
    except OSError as error:
        raise InvalidTexts(
            f"{path}: cannot be read ({error.strerror}); give a texts file with --texts"
        ) from error
    except InvalidTexts as error:
        raise InvalidTexts(f"{path}: {error}; it must be like {TEXTS}") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidTexts(
            f"{path}: no texts of an agent ({error!r}); it must be like {TEXTS}"
        ) from error
    return texts


def _parse(raw: dict[str, Any]) -> Texts:
    return Texts(
        personas=tuple(
            Persona(p["name"], p["prompt"], tuple(p.get("also", ())), p["greeting"])
            for p in raw["persona"]
        ),
        topics=tuple(Topic(t["name"], tuple(t["ask"]), t["say"]) for t in raw["topic"]),
        fallbacks=tuple(
            Fallback(f["say"], float(f.get("up_to_seconds", "inf"))) for f in raw["fallback"]
        ),
        silence_prompt=raw["silence"]["prompt"],
        silence_seconds=float(raw["silence"]["after_seconds"]),
        off_topic=_unknown(raw["off_topic"]),
        near_miss=_unknown(raw["near_miss"]),
        general=tuple(raw["general"]["say"]),
    )


def _unknown(raw: dict[str, Any]) -> Unknown:
    return Unknown(tuple(raw["train"]), tuple(raw["test"]))


def _check(texts: Texts) -> None:
    spoken = texts.spoken
    _require(len(set(spoken)) == len(spoken), "two things that the agent says are the same")
    _require(bool(texts.personas), "there must be a persona")
    _require(bool(texts.fallbacks), "there must be a fallback")
    limits = [f.up_to_seconds for f in texts.fallbacks]
    _require(limits == sorted(limits), "fallbacks are not in order of up_to_seconds")
    _require(limits[-1] == float("inf"), "the last fallback must have no up_to_seconds")
    for topic in texts.topics:
        _require(
            len(set(topic.ask)) >= MIN_WORDINGS, f"{topic.name!r} needs {MIN_WORDINGS} wordings"
        )
    asked = [ask.lower() for topic in texts.topics for ask in topic.ask]
    _require(len(set(asked)) == len(asked), "two topics share a wording")
    _check_unknown(texts, set(asked))


def _check_unknown(texts: Texts, asked: set[str]) -> None:
    for unknown in (texts.off_topic, texts.near_miss):
        held_out = set(unknown.test) & set(unknown.train)
        _require(not held_out, f"trained and tested on: {sorted(held_out)}")
        known = {s.lower() for s in (*unknown.train, *unknown.test)} & asked
        _require(not known, f"known questions among the unknown: {sorted(known)}")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise InvalidTexts(message)
