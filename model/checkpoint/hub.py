"""Fetches a repository's checkpoint files from the Hugging Face hub, or from its local cache.

Only the files that this project reads are fetched. `HF_TOKEN`, `HF_ENDPOINT`, `HF_HOME` and
`HF_HUB_OFFLINE` work as everywhere else.
"""

from __future__ import annotations

from pathlib import Path

from huggingface_hub import constants, snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from model.checkpoint.errors import (
    CheckpointError,
    CheckpointNotFound,
    GatedRepository,
    HubUnreachable,
)

WANTED = (
    "config.json",
    "model.safetensors",
    "tokenizer*.safetensors",
    "tokenizer*.model",
    "voices.tgz",
    "voices/*.pt",
)
LICENCES = {
    "nvidia/personaplex-7b-v1": "NVIDIA Open Model License",
    "kyutai/personaplex-rl-seamless": "CC BY-NC 4.0 (non-commercial) and NVIDIA Open Model License",
}
"""What the weights of known repositories may be used for, in their own words."""


def fetch_repository(repo: str, revision: str | None) -> Path:
    """The local snapshot folder of `repo`, downloaded where it has to be.

    Raises `GatedRepository`, `CheckpointNotFound`, `HubUnreachable`.
    """
    try:
        folder = snapshot_download(repo, revision=revision, allow_patterns=list(WANTED))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise _explain(error, repo, revision) from error
    return Path(folder)


def _explain(error: Exception, repo: str, revision: str | None) -> CheckpointError:
    """The one line that says what to do about `error`, or about what caused it."""
    cause: BaseException | None = error
    while cause is not None:
        known = _known(cause, repo, revision)
        if known is not None:
            return known
        cause = cause.__cause__ or cause.__context__
    return HubUnreachable(
        f"{repo} is not in the local cache and {constants.ENDPOINT} cannot be reached; check the"
        " network, or name a folder"
    )


def _known(error: BaseException, repo: str, revision: str | None) -> CheckpointError | None:
    page = f"{constants.ENDPOINT}/{repo}"
    if isinstance(error, RevisionNotFoundError):
        return CheckpointNotFound(f"{repo} has no revision {revision!r}; see {page}/commits")
    status = _status(error)
    # The hub answers 401 also for a repository that does not exist, so as not to tell them apart.
    if isinstance(error, GatedRepoError) or status in (401, 403):
        return GatedRepository(
            f"{repo} is gated ({status or 403}): accept its licence at {page}, then set HF_TOKEN to"
            " a token of that account (or check the name)"
        )
    if isinstance(error, RepositoryNotFoundError | HFValidationError):
        return CheckpointNotFound(f"there is no model folder and no repository {repo}; see {page}")
    return None


def _status(error: BaseException) -> int | None:
    status = getattr(getattr(error, "response", None), "status_code", None)
    return status if isinstance(status, int) else None
