"""What `offline` computes: its inputs stepped as one batch, with all that needs the model."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from agent.command import CommandError
from agent.progress import ProgressBar
from agent.results import Result
from agent.settings import Settings
from agent.sources import Source
from model import (
    FRAME_SECONDS,
    CheckpointError,
    CheckpointInfo,
    EngineError,
    OfflineBatch,
    OfflineFrame,
    Sampling,
    SessionSpec,
    describe,
    offline_batch,
)


def answer(loaded: Settings, seed: int | None, sources: Sequence[Source]) -> list[Result]:
    """The agent's side of every source's call. Raises `CommandError`."""
    try:
        info = describe(loaded.model)
        _introduce(info)
        _check_codes(info, sources)
        batch = offline_batch(
            info,
            [spec_of(info, loaded, seed)] * len(sources),
            device=loaded.device,
            dtype=None if loaded.dtype == "auto" else loaded.dtype,
        )
        return converse(batch, sources)
    except (CheckpointError, EngineError) as error:
        raise CommandError(str(error)) from error


def _introduce(info: CheckpointInfo) -> None:
    notes = ["random weights: it babbles"] if info.is_random else []
    notes += [f"licence: {info.licence}"] if info.licence else []
    print(f"model {info.name}" + "".join(f" ({note})" for note in notes), file=sys.stderr)


def _check_codes(info: CheckpointInfo, sources: Sequence[Source]) -> None:
    card = info.config.lm.card
    for source in sources:
        if source.frames.dtype == np.int64 and not np.isin(source.frames, np.arange(card)).all():
            raise CommandError(f"--codes {source.path} holds codes outside 0 to {card - 1}")


def spec_of(info: CheckpointInfo, loaded: Settings, seed: int | None) -> SessionSpec:
    return SessionSpec(
        voice=loaded.voice or info.default_voice,
        persona=loaded.persona or info.default_persona,
        sampling=None if seed is None else Sampling(seed),
    )


def converse(batch: OfflineBatch, sources: Sequence[Source]) -> list[Result]:
    """Step all sources together until the longest has ended."""
    results = [Result() for _ in sources]
    length = max(len(source.frames) for source in sources)
    step = batch.step_codes if sources[0].frames.dtype == np.int64 else batch.step
    bar = ProgressBar("frames", length, sys.stderr)
    began = time.perf_counter()
    for index in range(length):
        frames = np.stack([_frame(source, index) for source in sources])
        live = np.array([index < len(source.frames) for source in sources])
        _collect(results, step(frames, live), live)
        spent, spoken = time.perf_counter() - began, (index + 1) * FRAME_SECONDS
        bar.show(index + 1, f"real-time factor {spent / spoken:.2f}")
    bar.close()
    return results


def _frame(source: Source, index: int) -> NDArray[np.generic]:
    """The frame at `index`; anything of its kind where the source has ended."""
    frame: NDArray[np.generic] = source.frames[min(index, len(source.frames) - 1)]
    return frame


def _collect(results: Sequence[Result], frame: OfflineFrame, live: NDArray[np.bool_]) -> None:
    for row, result in enumerate(results):
        if live[row]:
            result.pcm.append(frame.pcm[row])
            result.texts.append(frame.texts[row])
            result.tokens.append(int(frame.tokens[row]))
            result.codes.append(frame.codes[row])
