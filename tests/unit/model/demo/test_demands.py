"""`python -m model.demo`: what cannot work is one line before any stage begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from model.demo import __main__ as command
from model.demo.__main__ import BAD_INPUT, main

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with two texts files that are none, an empty one, and one with a corpus."""
    monkeypatch.chdir(tmp_path)
    Path("words.toml").write_text("hello", encoding="utf-8")
    Path("bytes.toml").write_bytes(b"\xff")
    Path("empty").mkdir()
    corpus = Path("said", "corpus")
    corpus.mkdir(parents=True)
    for name in ("corpus.json", "user.npy", "agent.npy"):
        (corpus / name).touch()
    monkeypatch.setattr(command, "_run", lambda *_: pytest.fail("a stage began"))


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("corpus --texts nope.toml", "nope.toml: cannot be read (No such file or directory)"),
        ("train --texts empty", "empty: cannot be read (Is a directory)"),
        ("corpus --texts words.toml", "words.toml: no texts of an agent (TOMLDecodeError"),
        ("corpus --texts bytes.toml", "bytes.toml: no texts of an agent (UnicodeDecodeError"),
        ("train --work empty", "empty/corpus/corpus.json: No such file"),
        ("train --work nowhere", "run `python -m model.demo corpus`"),
        ("export --work empty", "empty/corpus/corpus.json: No such file"),
        ("export --work said", "said/runs/codec.pt: No such file"),
        ("export --work said", "run `python -m model.demo train`"),
        ("evaluate --work said --checkpoint gone", "gone: No such file"),
        ("evaluate --work said --checkpoint empty", "the model folder empty has no config.json"),
        ("evaluate --work empty", "run `python -m model.demo corpus`"),
    ],
)
def test_bad_input_is_one_line(words: str, named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == BAD_INPUT
    printed = capsys.readouterr().err
    assert printed.startswith("error: ") and named in printed
    assert len(printed.splitlines()) == 1


COUNTS = ("codec-steps", "decoder-steps", "language-steps", "takes", "answers", "recognised")


@pytest.mark.parametrize("flag", [*COUNTS, "workers"])
@pytest.mark.parametrize("value", ["-5", "0"])
def test_counts_are_at_least_one(flag: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["train", f"--{flag}", value])
    assert ended.value.code == BAD_INPUT
    assert f"argument --{flag}: {value} is not at least 1" in capsys.readouterr().err
