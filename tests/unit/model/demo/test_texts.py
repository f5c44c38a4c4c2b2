"""The bundled texts are complete, and mistakes in a file of one's own are named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from model.demo.texts import TEXTS, InvalidTexts, load_texts

pytestmark = pytest.mark.unit


def test_bundled_texts_are_a_whole_agent() -> None:
    texts = load_texts()
    assert len(texts.topics) >= 40
    assert all(len(set(topic.ask)) >= 3 for topic in texts.topics)
    assert [persona.name for persona in texts.personas] == ["teacher", "front desk"]
    assert len({persona.greeting for persona in texts.personas}) == 2
    assert texts.silence_seconds == 15


def test_every_line_is_unlike_every_other() -> None:
    spoken = load_texts().spoken
    assert len({line.lower() for line in spoken}) == len(spoken)


def test_the_fallback_follows_from_how_long_someone_spoke() -> None:
    texts = load_texts()
    said = [texts.fallback(seconds) for seconds in (0.3, 1.2, 1.21, 2.4, 2.5, 60.0)]
    first, second, third = (f.say for f in texts.fallbacks)
    assert said == [first, first, second, second, third, third]


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('ask = ["hello", "good morning", "hi there"]', 'ask = ["hello", "hi there"]', "'hello'"),
        ('"what is your name"', '"hello"', "share a wording"),
        ('say = "Two and two makes four."', 'say = "You are welcome."', "the same"),
        ("up_to_seconds = 2.4", "up_to_seconds = 0.4", "order"),
        ('"my uncle repairs clocks in his basement"', '"what"', "trained and tested on"),
        ('"why do cats purr"', '"are you a human"', "known questions"),
        ('name = "teacher"', "", "'name'"),
        ("[silence]", "[silence", "TOMLDecodeError"),
    ],
)
def test_a_mistake_is_refused_by_name(tmp_path: Path, old: str, new: str, named: str) -> None:
    source = TEXTS.read_text(encoding="utf-8")
    assert old in source
    path = tmp_path / "texts.toml"
    path.write_text(source.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(InvalidTexts, match=named):
        load_texts(path)


@pytest.mark.parametrize("name", ["persona", "fallback"])
def test_an_empty_list_is_refused_by_name(tmp_path: Path, name: str) -> None:
    others = re.sub(rf"(?ms)^\[\[{name}\]\].*?(?=^\[)", "", TEXTS.read_text(encoding="utf-8"))
    path = tmp_path / "texts.toml"
    path.write_text(f"{name} = []\n{others}", encoding="utf-8")
    with pytest.raises(InvalidTexts, match=f"there must be a {name}"):
        load_texts(path)
