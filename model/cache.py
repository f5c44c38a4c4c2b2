"""The cache folder: files that can be made again, each made whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/personaplex`, by default `~/.cache/personaplex`."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "personaplex"


def build_once(folder: Path, build: Callable[[Path], None]) -> Path:
    """Fill `folder` by `build` if it does not exist, so that nobody ever sees half of it."""
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f"{folder.name}."))
    try:
        build(scratch)
        try:
            scratch.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was faster, and its copy is as good
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return folder
