"""What a stage of the recipe needs, looked for before it begins; each refusal is one line."""

from __future__ import annotations

from pathlib import Path

from model.checkpoint.locate import files_in

from .basis import Basis
from .corpus import INDEX
from .recipe import LATER_RUNS, Plan, Work
from .training import is_finished

CORPUS_FILES = (INDEX, "user.npy", "agent.npy")
TRAIN_FIRST = "run `python -m model.demo train` with this --work first"


class CannotBegin(Exception):
    """A stage cannot begin; the message says what is wrong, where, and what to do."""


def demand_inputs(stage: str, work: Work, plan: Plan, checkpoint: Path) -> None:
    """What `stage` will read is there and belongs together.

    Raises `CannotBegin`, `InvalidTexts`, and `CheckpointError` for the one to be evaluated.
    """
    _ = work.texts
    if stage == "evaluate":
        _demand([checkpoint], "give a checkpoint's folder with --checkpoint")
        files_in(str(checkpoint), checkpoint)
    if stage != "corpus":
        corpus = [work.corpus / name for name in CORPUS_FILES]
        _demand(corpus, "run `python -m model.demo corpus` with this --work first")
    if stage == "train":
        _demand_basis(work, plan, ("corpus", "seed", "takes"))
    if stage == "export":
        _demand_trained(work)
        _demand_basis(work, plan, ("corpus",))


def _demand(paths: list[Path], remedy: str) -> None:
    for path in paths:
        if not path.exists():
            raise CannotBegin(f"{path}: No such file or directory; {remedy}")


def _demand_trained(work: Work) -> None:
    trainings = [work.runs / f"{name}.pt" for name in ("codec", *LATER_RUNS)]
    _demand([trainings[0], work.bank, work.tokenizer, *trainings[1:]], TRAIN_FIRST)
    for path in trainings:
        if not is_finished(work.runs, path.stem):
            raise CannotBegin(f"{path}: was stopped before its last step; {TRAIN_FIRST}")


def _demand_basis(work: Work, plan: Plan, names: tuple[str, ...]) -> None:
    """Nothing of `names` has changed since the trainings were begun."""
    begun = Basis.stored(work.runs)
    now = Basis.of(work.corpus, plan.seed, plan.takes)
    changed = [name for name in now.differs(begun) if name in names] if begun else []
    if changed:
        raise CannotBegin(
            f"{work.runs}: was trained with another {', '.join(changed)}; "
            "delete it or give another --work"
        )
