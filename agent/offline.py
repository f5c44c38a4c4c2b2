"""The command `offline`: recordings in, the agent's side of the call out, as fast as it goes.

Several inputs are stepped as one batch. It writes what NVIDIA's own offline script writes: a WAV
and a JSON list with one text entry a frame; on demand the tokens as well. Unlike there, a recording
is followed by silence, in which the answer comes.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from agent import settings
from agent.command import CommandError, configure_logging
from agent.progress import ProgressBar
from agent.settings import Settings
from agent.wav import add_tail, frames_of, open_wav, read_wav, with_tail
from model import (
    AGENT_CODEBOOKS,
    FRAME_SAMPLES,
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


@dataclasses.dataclass(frozen=True)
class Source:
    """One input: frames of sound `[F, 1920]` or of user codes `[F, 8]`, and its length."""

    frames: NDArray[np.float32] | NDArray[np.int64]
    samples: int


@dataclasses.dataclass
class Result:
    """What one row has said so far."""

    pcm: list[NDArray[np.float32]] = dataclasses.field(default_factory=list)
    texts: list[str] = dataclasses.field(default_factory=list)
    tokens: list[int] = dataclasses.field(default_factory=list)
    codes: list[NDArray[np.int64]] = dataclasses.field(default_factory=list)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    settings.add_arguments(parser, "model", "log")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--input", nargs="+", type=Path, help="recordings, any rate and format")
    source.add_argument("--codes", nargs="+", type=Path, help=".npy user codes [8, T] instead")
    add_tail(parser)
    for flag, what in (
        ("--output", "WAV of the agent, as long as the input and its tail"),
        ("--text", "JSON list, one text entry a frame"),
        ("--tokens", ".npz with text [T] and agent [T, 8]"),
    ):
        parser.add_argument(flag, nargs="+", type=Path, default=[], help=f"{what}, one an input")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--greedy", action="store_true", help="the likeliest token (the default)")
    choice.add_argument("--seed", type=int, help="draw tokens, repeatably")


def run(args: argparse.Namespace) -> int:
    loaded = settings.load(args)
    configure_logging(loaded.log_level)
    inputs: list[Path] = args.input or args.codes
    _one_each(args, len(inputs))
    sources = [read_codes(path) if args.codes else read_sound(path, args.tail_s) for path in inputs]
    try:
        info = describe(loaded.model)
        _introduce(info)
        _check_codes(info, inputs, sources)
        spec = spec_of(info, loaded, args.seed)
        batch = offline_batch(
            info,
            [spec] * len(sources),
            device=loaded.device,
            dtype=None if loaded.dtype == "auto" else loaded.dtype,
        )
        results = converse(batch, sources)
    except (CheckpointError, EngineError) as error:
        raise CommandError(str(error)) from error
    try:
        write(args, sources, results)
    except OSError as error:
        raise CommandError(f"the results cannot be written: {error}") from error
    return 0


def _one_each(args: argparse.Namespace, inputs: int) -> None:
    if not (args.output or args.text or args.tokens):
        raise CommandError("nothing would be written; give --output, --text or --tokens")
    for name in ("output", "text", "tokens"):
        given: list[Path] = getattr(args, name)
        if given and len(given) != inputs:
            raise CommandError(f"--{name} names {len(given)} files for {inputs} inputs")
        for path in given:
            _demand_writable(f"--{name} {path}", path)


def _demand_writable(what: str, path: Path) -> None:
    """Said now: after the computing it would be late."""
    if not path.parent.is_dir():
        raise CommandError(f"{what}: there is no folder {path.parent}")
    if path.is_dir():
        raise CommandError(f"{what}: that is a folder; name a file in it")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise CommandError(f"{what}: cannot be written; name a file in a folder of yours")


def read_sound(path: Path, tail_s: float) -> Source:
    samples = with_tail(read_wav(path), tail_s)
    return Source(frames_of(samples), len(samples))


def read_codes(path: Path) -> Source:
    """User codes `[8, T]`, one column a frame. Raises `CommandError`."""
    try:
        codes = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise CommandError(f"--codes {path} is no .npy file ({error}); save it by numpy") from error
    if not isinstance(codes, np.ndarray) or codes.ndim != 2 or codes.dtype.kind not in "iu":
        raise CommandError(f"--codes {path} must hold one array of integers [8, T]")
    if codes.shape[0] != AGENT_CODEBOOKS or not codes.shape[1]:
        raise CommandError(f"--codes {path} is {list(codes.shape)}; it must be [8, T]")
    return Source(codes.T.astype(np.int64), codes.shape[1] * FRAME_SAMPLES)


def _check_codes(info: CheckpointInfo, inputs: Sequence[Path], sources: Sequence[Source]) -> None:
    card = info.config.lm.card
    for path, source in zip(inputs, sources, strict=True):
        if source.frames.dtype == np.int64 and not np.isin(source.frames, np.arange(card)).all():
            raise CommandError(f"--codes {path} holds codes outside 0 to {card - 1}")


def _introduce(info: CheckpointInfo) -> None:
    notes = ["random weights: it babbles"] if info.is_random else []
    notes += [f"licence: {info.licence}"] if info.licence else []
    print(f"model {info.name}" + "".join(f" ({note})" for note in notes), file=sys.stderr)


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


def write(args: argparse.Namespace, sources: Sequence[Source], results: Sequence[Result]) -> None:
    for row, (source, result) in enumerate(zip(sources, results, strict=True)):
        if args.output:
            with open_wav(args.output[row]) as target:
                target.write(np.concatenate(result.pcm)[: source.samples])
        if args.text:
            text = json.dumps(result.texts, ensure_ascii=False)
            args.text[row].write_text(text + "\n", encoding="utf-8")
        if args.tokens:
            tokens = np.array(result.tokens, np.int64)
            np.savez(args.tokens[row], text=tokens, agent=np.stack(result.codes))
