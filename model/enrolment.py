"""An operator's work on the voices of a checkpoint folder: add one, check all.

Clients never come here: they name bundled voices and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from model.archive import unpack_voices
from model.cache import build_once
from model.checkpoint.errors import VoiceError
from model.checkpoint.load import CheckpointInfo, describe, load_checkpoint
from model.checkpoint.locate import CheckpointFiles
from model.checkpoint.names import VOICES_FOLDER
from model.core import FRAME_SECONDS, Pcm
from model.enrol import Enroller
from model.voices import BASENAME, open_catalogue, write_voice


@dataclass(frozen=True)
class VoiceReport:
    """One voice as it was read, or why it could not be."""

    name: str
    seconds: float | None
    problem: str | None


def check_voices(info: CheckpointInfo) -> list[VoiceReport]:
    """Read every voice of a described checkpoint."""
    catalogue = open_catalogue(info.files.voices, info.config.lm)
    reports = []
    for name in catalogue.names():
        try:
            voice = catalogue.read(name)
        except VoiceError as error:
            reports.append(VoiceReport(name, None, str(error)))
        else:
            reports.append(VoiceReport(name, voice.frames * FRAME_SECONDS, None))
    return reports


def add_voice(model: str, name: str, pcm: Pcm) -> Path:
    """Enrol a recording, 24 kHz mono, under `name`; the file that was written.

    A checkpoint without any voice needs an empty folder `voices/`.
    Raises `CheckpointError`: for a name that is taken or cannot be one, for an unsuitable
    recording, for a checkpoint that does not load.
    """
    basename = name if name.endswith(".pt") else f"{name}.pt"
    if not BASENAME.fullmatch(basename):
        raise VoiceError(f"{name!r} cannot name a voice; use letters, digits, - and _")
    info = describe(model, voiceless=True)
    if basename in info.voices:
        raise VoiceError(f"{basename} is in {info.files.voices} already; choose another name")
    checkpoint = load_checkpoint(model, device=torch.device("cpu"), voiceless=True)
    voice = Enroller(info.config, checkpoint.lm, checkpoint.mimi).enrol(basename, pcm)
    path = _writable_folder(info.files) / basename
    write_voice(path, voice.embeddings, voice.cache)
    return path


def _writable_folder(files: CheckpointFiles) -> Path:
    """`voices/`, made from the archive where there is only that, since it then takes its place."""
    archive, folder = files.voices, files.folder / VOICES_FOLDER
    return build_once(folder, lambda scratch: unpack_voices(archive, scratch))
