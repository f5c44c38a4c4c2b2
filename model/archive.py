"""Unpacks `voices.tgz` so that nothing can leave its folder: plain `.pt` files, flat.

A member with an absolute path, a step upwards, a link or a device condemns the whole archive: it
was not made by anyone who meant well.
"""

from __future__ import annotations

import shutil
import tarfile
import zlib
from pathlib import Path, PurePosixPath

from model.checkpoint.errors import VoiceError

MAX_VOICE_BYTES = 64 * 2**20
"""Far above any real voice (125 frames of the 7B are 1 MB); a bomb is refused."""


def unpack_voices(archive: Path, folder: Path) -> None:
    """Write every `.pt` of `archive` into `folder` under its basename. Raises `VoiceError`."""
    try:
        with tarfile.open(archive, "r:gz") as opened:
            for member in opened:
                _unpack(archive, opened, member, folder)
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise VoiceError(f"{archive} is no tar archive ({error}); fetch it again") from error


def _unpack(archive: Path, opened: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts or "\\" in member.name:
        raise VoiceError(f"{archive}: {member.name!r} would leave the folder; do not use this file")
    if not (member.isfile() or member.isdir()):
        raise VoiceError(f"{archive}: {member.name!r} is a link or device; do not use this file")
    if member.isdir() or path.suffix != ".pt" or path.name.startswith("."):
        return
    if member.size > MAX_VOICE_BYTES:
        raise VoiceError(f"{archive}: {member.name!r} is too large for a voice")
    source = opened.extractfile(member)
    assert source is not None, "a regular file can be read"
    with source, open(folder / path.name, "xb") as target:
        shutil.copyfileobj(source, target)
