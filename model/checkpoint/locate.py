"""Finds the files of a checkpoint by name: `demo`, a folder, or a Hugging Face repository.

Knows file names and the hub; opens nothing, and sees to it that what it names can be opened.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from model.checkpoint.errors import CheckpointIncomplete, CheckpointNotFound
from model.checkpoint.names import (
    CONFIG_NAME,
    MIMI_PATTERN,
    MODEL_NAME,
    TOKENIZER_PATTERN,
    VOICES_ARCHIVE,
    VOICES_FOLDER,
)

DEMO = "demo"
DEMO_FOLDER = Path(__file__).parent.parent / "demo" / "checkpoint"

REPO_ID = re.compile(r"[\w.-]+/[\w.-]+(@[\w./-]+)?", re.ASCII)


@dataclass(frozen=True)
class CheckpointFiles:
    """Where the parts of one checkpoint lie; `name` is what the operator asked for."""

    name: str
    folder: Path
    config: Path
    model: Path
    mimi: Path
    tokenizer: Path
    voices: Path
    """The folder `voices/`, or the archive `voices.tgz`."""


def locate(name: str) -> CheckpointFiles:
    """Find `name`, fetching it from the hub where it is a repository.

    Raises `CheckpointNotFound`, `CheckpointIncomplete`, `GatedRepository`, `HubUnreachable`.
    """
    found = local_files(name)
    if found is not None:
        return found
    # The hub's package takes longer to import than to refuse a name that is none.
    from model.checkpoint.hub import fetch_repository

    repo, _, revision = name.partition("@")
    return files_in(name, fetch_repository(repo, revision or None))


def local_files(name: str) -> CheckpointFiles | None:
    """The checkpoint `name` on this disk; None for a repository, of which the hub is not asked.

    Raises `CheckpointNotFound`, `CheckpointIncomplete`.
    """
    if name == DEMO:
        return files_in(name, DEMO_FOLDER)
    try:
        folder = Path(name).expanduser()
        is_folder, exists = folder.is_dir(), folder.exists()
    except (OSError, RuntimeError) as error:  # no such user, or no way there
        why = error.strerror if isinstance(error, OSError) else error
        raise CheckpointNotFound(
            f"the model folder {name} cannot be looked for ({why}); name another"
        ) from error
    if is_folder:
        return files_in(name, folder)
    if exists:
        raise CheckpointNotFound(f"{folder} is a file; name the folder that holds it")
    if REPO_ID.fullmatch(name) and not name.startswith("."):
        return None
    raise CheckpointNotFound(
        f"there is no model folder {name!r}; name a folder, `demo`, or a Hugging Face repository"
        " such as nvidia/personaplex-7b-v1"
    )


def files_in(name: str, folder: Path) -> CheckpointFiles:
    """The parts of the checkpoint in `folder`. Raises `CheckpointIncomplete`."""
    voices = folder / VOICES_FOLDER
    _demand_readable(folder)
    return CheckpointFiles(
        name=name,
        folder=folder,
        config=_the_file(folder, CONFIG_NAME),
        model=_the_file(folder, MODEL_NAME),
        mimi=_the_file(folder, MIMI_PATTERN),
        tokenizer=_the_file(folder, TOKENIZER_PATTERN),
        voices=_demand_readable(voices) if voices.is_dir() else _the_file(folder, VOICES_ARCHIVE),
    )


def _demand_readable(path: Path) -> Path:
    needed = os.R_OK | os.X_OK if path.is_dir() else os.R_OK
    if not os.access(path, needed):
        raise CheckpointIncomplete(f"{path} may not be read by this user; change its permissions")
    return path


def _the_file(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if not found:
        what = f"{pattern} or {VOICES_FOLDER}/" if pattern == VOICES_ARCHIVE else pattern
        raise CheckpointIncomplete(
            f"the model folder {folder} has no {what}; fetch the checkpoint again"
        )
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise CheckpointIncomplete(
            f"the model folder {folder} has several {pattern} ({names}); leave one"
        )
    if not os.path.isfile(found[0]):
        raise CheckpointIncomplete(f"{found[0]} is no file; fetch the checkpoint again")
    return _demand_readable(found[0])
