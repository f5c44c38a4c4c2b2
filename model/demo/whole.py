"""Files that are there whole or not at all, whenever the writer is stopped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Where to write what is to stand at `path`; it takes that place once it is complete."""
    part = path.with_suffix(".part")
    yield part
    part.replace(path)
