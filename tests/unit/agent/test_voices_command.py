"""The command `voices`: list, add from a recording, check."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest
import soundfile

from agent.__main__ import main
from model import describe
from model.random_weights import voice_like_sound

pytestmark = pytest.mark.unit


@pytest.fixture
def model(tiny_checkpoint: Path, tmp_path: Path) -> Path:
    """A copy of the tiny checkpoint with its voices in an archive."""
    folder = tmp_path / "model"
    folder.mkdir()
    for path in tiny_checkpoint.iterdir():
        if path.is_file():
            os.link(path, folder / path.name)
    with tarfile.open(folder / "voices.tgz", "w:gz") as archive:
        archive.add(tiny_checkpoint / "voices", "voices")
    return folder


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "ada.flac"
    soundfile.write(path, voice_like_sound(2 * 16_000, 1), 16_000)
    return path


def voices(model: Path, *words: object) -> int:
    return main(["voices", *map(str, words), "--model", str(model)])


def test_a_voice_is_added_listed_and_checked(
    model: Path, recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert voices(model, "list") == 0
    assert capsys.readouterr().out.splitlines() == ["RAND0.pt (default)"]
    assert voices(model, "add", "Ada", recording) == 0
    assert "consent" in capsys.readouterr().err
    assert describe(str(model)).voices == ("Ada.pt", "RAND0.pt")
    assert voices(model, "check") == 0
    assert "Ada.pt 2.00 s, good" in capsys.readouterr().out


def test_the_first_voice_of_a_checkpoint_can_be_added(model: Path, recording: Path) -> None:
    (model / "voices").mkdir()
    assert voices(model, "add", "RAND0", recording) == 0
    assert describe(str(model)).voices == ("RAND0.pt",)


def test_a_broken_voice_is_found(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (model / "voices").mkdir()
    for name in ("RAND0.pt", "Bad.pt"):
        (model / "voices" / name).write_bytes(b"no voice")
    assert voices(model, "check") == 1
    out = capsys.readouterr().out
    assert "Bad.pt is no voice file" in out and "RAND0.pt is no voice file" in out


@pytest.mark.parametrize("name", ["RAND0", "RAND0.pt", "../evil", "a b", "", ".pt"])
def test_a_name_that_is_taken_or_none_is_one_line(
    model: Path, recording: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert voices(model, "add", name, recording) != 0
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if line.startswith("error:")] == said[-1:]
    assert describe(str(model)).voices == ("RAND0.pt",)
