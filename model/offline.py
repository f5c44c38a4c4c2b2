"""Calls without a clock: several inputs stepped as one batch, as fast as the device allows.

The same frame step, prefill and sampler as in serving, driven directly: no engine, no queues. User
codes may take the place of sound, so that the language model can be checked apart from the codec.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.checkpoint.fit import PAD
from model.checkpoint.load import DTYPES, Checkpoint, CheckpointInfo, load_checkpoint
from model.core import EngineError, InvalidVoice, PromptTooLong, SessionSpec
from model.loading import compute_threads, pick_device, prompt_reader
from model.modes import prepare_fastest
from model.prefill import prefill
from model.step import FrameOutput, FrameStep
from model.tokenizer import TextJoiner

PAD_NAMES = {0: "EPAD", PAD: "PAD"}
"""What the reference writes for positions without text."""


class RowFailed(EngineError):
    """A row left the real numbers; `row` counts from 0."""

    code = "row_failed"

    def __init__(self, row: int, frame: int) -> None:
        super().__init__(f"input {row + 1}: the model left the real numbers at frame {frame}")


@dataclass(frozen=True)
class OfflineFrame:
    """One emitted frame of all B rows, on the host; rows that have ended mean nothing."""

    pcm: NDArray[np.float32]
    """`[B, 1920]`, 24 kHz."""
    tokens: NDArray[np.int64]
    """Text tokens, `[B]`."""
    codes: NDArray[np.int64]
    """Agent codes, `[B, 8]`."""
    texts: tuple[str, ...]
    """The piece of each row, a space for U+2581; `PAD` or `EPAD` where there is none."""


class OfflineBatch:
    """B calls over one checkpoint, each prefilled with its own voice and persona."""

    def __init__(self, checkpoint: Checkpoint, specs: Sequence[SessionSpec]) -> None:
        """Raises `InvalidVoice`, `PrefillUnavailable`, `PromptTooLong`."""
        self.info = checkpoint.info
        self._step = FrameStep(
            checkpoint.lm,
            checkpoint.mimi,
            self.info.config,
            len(specs),
            prepared=prepare_fastest(checkpoint.lm, len(specs))[0],
            sampling=any(spec.sampling is not None for spec in specs),
        )
        self._device = checkpoint.lm.text_emb.weight.device
        self._joiners = [TextJoiner(checkpoint.tokenizer) for _ in specs]
        self._frames = 0
        for slot, spec in enumerate(specs):
            self._admit(checkpoint, slot, spec)
        self._positions = list(self._step.origins)

    @property
    def rows(self) -> int:
        """B."""
        return self._step.slots

    def step(self, pcm: NDArray[np.float32], live: NDArray[np.bool_]) -> OfflineFrame:
        """One frame `[B, 1920]` of every row where `live` `[B]`. Raises `RowFailed`."""
        rows, held = range(self.rows), self._tensor(np.zeros(self.rows, np.bool_))
        wave = self._tensor(pcm)
        return self._emit(self._step.step(rows, wave, held, self._positions), live)

    def step_codes(self, codes: NDArray[np.int64], live: NDArray[np.bool_]) -> OfflineFrame:
        """As `step`, with the user's codes `[B, 8]` in place of sound. Raises `RowFailed`."""
        rows, held = range(self.rows), self._tensor(np.zeros(self.rows, np.bool_))
        user = self._tensor(codes)
        return self._emit(self._step.step_codes(rows, user, held, self._positions), live)

    def _admit(self, checkpoint: Checkpoint, slot: int, spec: SessionSpec) -> None:
        if spec.voice not in self.info.voices:
            known = ", ".join(self.info.voices)
            raise InvalidVoice(f"there is no voice {spec.voice!r}; there are {known}")
        prompt = prompt_reader(checkpoint)(spec)
        limit = self.info.config.lm.context // 2
        if prompt.positions > limit:
            raise PromptTooLong(prompt.positions, limit)
        prefix = prefill(checkpoint.lm, self.info.config, prompt)
        self._step.admit(slot, prefix, spec.sampling)

    def _emit(self, output: FrameOutput, live: NDArray[np.bool_]) -> OfflineFrame:
        bad = np.flatnonzero(live & ~output.finite.cpu().numpy())
        if len(bad):
            raise RowFailed(int(bad[0]), self._frames)
        self._step.commit(range(self.rows), self._tensor(live))
        self._frames += 1
        self._positions = [at + int(on) for at, on in zip(self._positions, live, strict=True)]
        tokens = output.text.cpu().numpy()
        return OfflineFrame(
            pcm=output.pcm.cpu().numpy(),
            tokens=tokens,
            codes=output.codes.cpu().numpy(),
            texts=tuple(self._text(row, int(token)) for row, token in enumerate(tokens)),
        )

    def _text(self, row: int, token: int) -> str:
        return PAD_NAMES.get(token) or self._joiners[row].push(token)

    def _tensor(self, array: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._device)


def offline_batch(
    info: CheckpointInfo,
    specs: Sequence[SessionSpec],
    *,
    device: str = "auto",
    dtype: str | None = None,
) -> OfflineBatch:
    """Load the described checkpoint and prefill one row a spec.

    Raises `CheckpointError` and what `OfflineBatch` raises.
    """
    torch.set_num_threads(compute_threads())
    checkpoint = load_checkpoint(
        info.name, device=pick_device(device), dtype=DTYPES[dtype] if dtype else None
    )
    return OfflineBatch(checkpoint, specs)
