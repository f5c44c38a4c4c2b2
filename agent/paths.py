"""Paths that a command is given, refused before anything slow begins. It opens no file.

An input that may not even be looked at counts as missing here: whoever opens it then says why.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from agent.command import CommandError
from model import CheckpointError, local_files


def demand_model(name: str) -> None:
    """Refuse a model that is no folder of a checkpoint; whether the hub has one is not asked.

    Raises `CommandError`.
    """
    try:
        local_files(name)
    except CheckpointError as error:
        raise CommandError(str(error)) from error


def demand_writable(what: str, path: Path) -> None:
    """Said now: after the computing it would be late. Raises `CommandError`."""
    if not os.path.isdir(path.parent):
        raise CommandError(f"{what}: there is no folder {path.parent}")
    if os.path.isdir(path):
        raise CommandError(f"{what}: that is a folder; name a file in it")
    if not os.access(path if os.path.exists(path) else path.parent, os.W_OK):
        raise CommandError(f"{what}: cannot be written; name a file in a folder of yours")
    try:
        os.stat(path)
    except FileNotFoundError:
        return  # it will be made
    except OSError as error:
        raise CommandError(f"{what}: cannot be written ({error.strerror})") from None


def demand_apart(outputs: Sequence[Path], inputs: Sequence[Path]) -> None:
    """Refuse to write a file twice, or over what is read; devices take any number.

    Raises `CommandError`.
    """
    taken = {_identity(path) for path in inputs if _is_kept(path)}
    for path in outputs:
        if not _is_kept(path):
            continue
        if _identity(path) in taken:
            raise CommandError(f"{path} is named twice and would be overwritten; name another file")
        taken.add(_identity(path))


def _is_kept(path: Path) -> bool:
    return os.path.isfile(path) or not os.path.exists(path)


def _identity(path: Path) -> str | tuple[int, int]:
    """The file itself where it exists, since links give it several names."""
    if os.path.exists(path):
        status = path.stat()
        return status.st_dev, status.st_ino
    return os.path.realpath(path)
