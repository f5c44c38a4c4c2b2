"""Why a checkpoint is refused: each message is one clear line (what, where, what to do)."""

from __future__ import annotations

from pathlib import Path


class CheckpointError(Exception):
    """Base of everything that finding, verifying or loading a checkpoint can refuse."""


class CheckpointNotFound(CheckpointError):
    """No folder, repository or revision of that name."""


class CheckpointIncomplete(CheckpointError):
    """The folder lacks one of the files that make a checkpoint."""


class GatedRepository(CheckpointError):
    """The hub answered 401 or 403: the licence is not accepted, or no token was sent."""


class HubUnreachable(CheckpointError):
    """The hub did not answer and its cache does not hold the files."""


class ConfigMismatch(CheckpointError):
    """`config.json` cannot be read, or its values do not fit each other or this code."""


class CorruptFile(CheckpointError):
    """A file is truncated, or not of its kind at all."""

    def __init__(self, path: Path, kind: str, reason: str) -> None:
        detail = " ".join(reason.split())
        super().__init__(
            f"{path} is truncated or no {kind} file ({detail}); fetch or export it again"
        )


class TensorError(CheckpointError):
    """One tensor of a file is not as it has to be; `tensor` is its name."""

    def __init__(self, path: Path, tensor: str, problem: str) -> None:
        super().__init__(f"{path}: tensor `{tensor}` {problem}")
        self.path = path
        self.tensor = tensor


class MissingTensor(TensorError):
    """The file has no tensor of that name, nor under any of its other names."""


class UnexpectedTensor(TensorError):
    """The file holds a tensor that this architecture has no place for."""


class TensorShape(TensorError):
    """The tensor has another shape than `config.json` asks for."""


class TensorDtype(TensorError):
    """The tensor is stored in a dtype that it must not have."""


class TensorNotFinite(TensorError):
    """The tensor holds NaN or infinity."""


class TokenizerError(CheckpointError):
    """The SentencePiece model cannot be read."""


class VoiceError(CheckpointError):
    """A voice, or the archive of voices, cannot be read."""
