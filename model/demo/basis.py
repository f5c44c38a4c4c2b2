"""What the trainings of a work folder stand on: they can only go on with the same."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from .corpus import INDEX
from .whole import whole


@dataclass(frozen=True)
class Basis:
    """The corpus by the digest of its index, and what else decides what is learnt from."""

    corpus: str
    seed: int
    takes: int

    @classmethod
    def of(cls, corpus: Path, seed: int, takes: int) -> Basis:
        """Raises `FileNotFoundError` where `corpus` has no index."""
        index = (corpus / INDEX).read_bytes()
        return cls(hashlib.sha256(index).hexdigest(), seed, takes)

    @classmethod
    def stored(cls, runs: Path) -> Basis | None:
        """Of the trainings in `runs`; none where nothing was begun there."""
        path = _path(runs)
        return cls(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None

    def store(self, runs: Path) -> None:
        with whole(_path(runs)) as part:
            part.write_text(json.dumps(asdict(self)), encoding="utf-8")

    def differs(self, other: Basis) -> list[str]:
        """Names of the fields that are not the same."""
        names = [field.name for field in fields(self)]
        return [name for name in names if getattr(self, name) != getattr(other, name)]


def _path(runs: Path) -> Path:
    return runs / "basis.json"
