"""`python -m model.demo`: what cannot work is one line before any stage begins."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from model.demo import __main__ as command
from model.demo.__main__ import BAD_INPUT, main
from model.demo.basis import Basis

pytestmark = pytest.mark.unit
TRAININGS = ("codec", "language", "patience", "decoder")


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


@pytest.fixture
def trained(here: None) -> Path:
    """A work folder whose trainings have ended."""
    work = Path("said")
    runs = work / "runs"
    runs.mkdir()
    for name in ("bank.pt", "tokenizer.model"):
        (runs / name).touch()
    for name in TRAININGS:
        torch.save({"step": 5, "steps": 5}, runs / f"{name}.pt")
    Basis.of(work / "corpus", seed=1, takes=4).store(runs)
    return work


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


@pytest.mark.parametrize("name", TRAININGS)
def test_a_training_that_was_stopped_is_not_exported(
    name: str, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = trained / "runs" / f"{name}.pt"
    torch.save({"step": 4, "steps": 5}, path)
    assert main(["export", "--work", str(trained)]) == BAD_INPUT
    assert f"{path}: was stopped before its last step" in capsys.readouterr().err
    path.unlink()
    assert main(["export", "--work", str(trained)]) == BAD_INPUT
    assert f"{path}: No such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "changed"),
    [("--seed 2", "seed"), ("--takes 3", "takes"), ("--seed 2 --takes 3", "seed, takes")],
)
def test_a_training_goes_on_only_with_what_it_was_begun_with(
    words: str, changed: str, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "--work", str(trained), *words.split()]) == BAD_INPUT
    assert f"said/runs: was trained with another {changed}; delete it" in capsys.readouterr().err


@pytest.mark.parametrize("stage", ["train", "export"])
def test_nothing_goes_on_from_another_corpus(
    stage: str, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (trained / "corpus" / "corpus.json").write_text("other sentences", encoding="utf-8")
    assert main([stage, "--work", str(trained)]) == BAD_INPUT
    assert "said/runs: was trained with another corpus;" in capsys.readouterr().err


@pytest.mark.parametrize("words", ["train", "export", "export --seed 2 --takes 3"])
def test_what_belongs_together_begins(
    words: str, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = []
    monkeypatch.setattr(command, "_run", lambda options, *_: begun.append(options.stage))
    assert main([*words.split(), "--work", str(trained)]) == 0
    assert begun == words.split()[:1]


COUNTS = ("codec-steps", "decoder-steps", "language-steps", "takes", "answers", "recognised")


@pytest.mark.parametrize("flag", [*COUNTS, "workers"])
@pytest.mark.parametrize("value", ["-5", "0"])
def test_counts_are_at_least_one(flag: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["train", f"--{flag}", value])
    assert ended.value.code == BAD_INPUT
    assert f"argument --{flag}: {value} is not at least 1" in capsys.readouterr().err
