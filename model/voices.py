"""The voices of a checkpoint: which there are, and one of them as tensors.

A voice is a `.pt` file in the released layout: the embeddings of positions 0 to N-2 and the token
columns around position N-1. Clients name a bundled basename; nothing else is ever opened.
"""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from model.archive import unpack_voices
from model.cache import build_once, cache_folder
from model.checkpoint.errors import VoiceError
from model.config import LMConfig

BASENAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*\.pt", re.ASCII)
ROWS = 17
COLUMNS = 4
"""The ring of the reference: the largest delay plus 3."""
READABLE = 0o644
"""Mode of a written voice: whoever serves it is often another user than who enrolled it."""


@dataclass(frozen=True)
class Voice:
    """One voice prompt of N frames, on the CPU.

    `embeddings` `[N-1, D]` are what the transformer is fed at positions 0 to N-2; `cache` `[17, 4]`
    holds the token column of position p at `p % 4`, complete for N-1, the acoustic tail for N.
    """

    name: str
    embeddings: Tensor
    cache: Tensor

    @property
    def frames(self) -> int:
        """N."""
        return self.embeddings.shape[0] + 1


class VoiceCatalogue:
    """The `.pt` files of one folder; the list is read once, each voice on demand."""

    def __init__(self, folder: Path, lm: LMConfig) -> None:
        """`lm` is the shape that the voices must fit."""
        self.folder, self._lm = folder, lm
        self._names = tuple(
            sorted(path.name for path in folder.iterdir() if BASENAME.fullmatch(path.name))
        )

    def names(self) -> tuple[str, ...]:
        """Basenames, sorted."""
        return self._names

    def read(self, name: str) -> Voice:
        """Read one voice. Raises `VoiceError` where it is not bundled or not as it should be."""
        if name not in self._names:
            raise VoiceError(f"there is no voice {name!r} in {self.folder}")
        path = self.folder / name
        if not path.resolve().is_relative_to(self.folder.resolve()):
            raise VoiceError(f"{path} is a link that leaves the folder")
        return parse_voice(name, read_voice_file(path), self._lm)


def open_catalogue(voices: Path, lm: LMConfig) -> VoiceCatalogue:
    """The catalogue of a folder, or of an archive, which is unpacked into the cache once.

    Raises `VoiceError`.
    """
    if not voices.is_dir():
        stat = voices.stat()
        key = f"voices-{stat.st_dev:x}-{stat.st_ino:x}-{stat.st_size:x}-{stat.st_mtime_ns:x}"
        archive = voices
        voices = build_once(cache_folder() / key, lambda folder: unpack_voices(archive, folder))
    return VoiceCatalogue(voices, lm)


def read_voice_file(path: Path) -> dict[str, Any]:
    """The dictionary in `path`; no code of the file is run. Raises `VoiceError`."""
    try:
        raw = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # on arbitrary bytes the unpickler fails in any way there is
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise VoiceError(f"{path} is no voice file ({reason}); fetch or enrol it again") from error
    if not isinstance(raw, dict):
        raise VoiceError(f"{path} holds a {type(raw).__name__}, not a voice")
    return raw


def parse_voice(name: str, raw: dict[str, Any], lm: LMConfig) -> Voice:
    """Check shapes, dtypes and ranges. Raises `VoiceError`."""
    embeddings, cache = raw.get("embeddings"), raw.get("cache")
    if not isinstance(embeddings, Tensor) or not isinstance(cache, Tensor):
        raise VoiceError(f"{name} lacks the tensors `embeddings` and `cache`")
    if embeddings.dim() != 4 or embeddings.shape[1:] != (1, 1, lm.dim) or not len(embeddings):
        shape = list(embeddings.shape)
        raise VoiceError(f"{name}: embeddings are {shape}, this model needs [N-1, 1, 1, {lm.dim}]")
    if not embeddings.is_floating_point() or not bool(embeddings.isfinite().all()):
        raise VoiceError(f"{name}: embeddings must be finite numbers of a floating dtype")
    if cache.shape != (1, ROWS, COLUMNS) or cache.dtype != torch.int64:
        raise VoiceError(f"{name}: cache must be [1, 17, 4] int64, not {list(cache.shape)}")
    voice = Voice(name, embeddings[:, 0, 0], cache[0])
    _check_tokens(voice, lm)
    return voice


def _check_tokens(voice: Voice, lm: LMConfig) -> None:
    """The columns that are read hold real tokens; the others may hold anything.

    The largest of each kind is its initial token. One that is no row of an embedding would fail
    its own call on a CPU, and on a GPU the device, with every call (contract I5).
    """
    last, tail = (voice.frames - 1) % COLUMNS, voice.frames % COLUMNS
    acoustic = [*range(2, 9), *range(10, 17)]
    codes = torch.cat([voice.cache[1:, last], voice.cache[acoustic, tail]])
    for kind, read, largest in (
        ("tokens", codes, lm.card),
        ("text tokens", voice.cache[0, last], lm.text_card),
    ):
        if int(read.min()) < 0 or int(read.max()) > largest:
            raise VoiceError(f"{voice.name}: cache holds {kind} outside 0 to {largest}")


def write_voice(path: Path, embeddings: Tensor, cache: Tensor) -> None:
    """Write `[N-1, D]` and `[17, 4]` in the released layout, whole or not at all."""
    body = {"embeddings": embeddings[:, None, None].clone(), "cache": cache[None].clone()}
    descriptor, scratch = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        os.fchmod(descriptor, READABLE)
        with os.fdopen(descriptor, "wb") as target:
            torch.save(body, target)
        os.replace(scratch, path)
    except BaseException:
        Path(scratch).unlink(missing_ok=True)
        raise
