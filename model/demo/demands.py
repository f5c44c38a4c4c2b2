"""What a stage of the recipe needs, looked for before it begins; each refusal is one line."""

from __future__ import annotations

from pathlib import Path

from model.checkpoint.locate import files_in

from .recipe import Work


class MissingInput(Exception):
    """A stage cannot begin; the message says what is missing, where, and what to do."""


def demand_inputs(stage: str, work: Work, checkpoint: Path) -> None:
    """What `stage` will read is there.

    Raises `MissingInput`, `InvalidTexts`, and `CheckpointError` for the one to be evaluated.
    """
    _ = work.texts
    if stage == "evaluate":
        _demand([checkpoint], "give a checkpoint's folder with --checkpoint")
        files_in(str(checkpoint), checkpoint)
    if stage != "corpus":
        corpus = [work.corpus / name for name in ("corpus.json", "user.npy", "agent.npy")]
        _demand(corpus, "run `python -m model.demo corpus` with this --work first")
    if stage == "export":
        trained = [work.runs / "codec.pt", work.bank, work.tokenizer, work.runs / "patience.pt"]
        _demand(trained, "run `python -m model.demo train` with this --work first")


def _demand(paths: list[Path], remedy: str) -> None:
    for path in paths:
        if not path.exists():
            raise MissingInput(f"{path}: No such file or directory; {remedy}")
