"""What `offline` has computed of one input, and the files that hold it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from agent.command import CommandError
from agent.sources import Source
from agent.turns import DEFAULT_TURNS, PAD_TOKENS
from agent.wav import WavFile


@dataclass
class Result:
    """What one row has said so far."""

    pcm: list[NDArray[np.float32]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    codes: list[NDArray[np.int64]] = field(default_factory=list)


def show(sources: Sequence[Source], results: Sequence[Result]) -> None:
    """Print what was said; where several inputs were answered, with the name of each."""
    for source, result in zip(sources, results, strict=True):
        name = "agent" if len(sources) == 1 else source.path
        for line in spoken_lines(result):
            print(f"{name}:{line}")


def spoken_lines(result: Result) -> list[str]:
    """The words as they were spaced; as in `console`, ten frames without any end a line."""
    lines: list[str] = []
    last_words = 0
    for frame, (token, text) in enumerate(zip(result.tokens, result.texts, strict=True)):
        if token in PAD_TOKENS or not text:
            continue
        if not lines or frame - last_words > DEFAULT_TURNS.done_frames:
            lines.append("")
        lines[-1] += text
        last_words = frame
    return lines


def write(args: argparse.Namespace, sources: Sequence[Source], results: Sequence[Result]) -> None:
    """Every file that was asked for. Raises `CommandError` once all that can be are written."""
    problems = []
    for path, save in _files(args, sources, results):
        try:
            save(path)
            print(f"{path} written", file=sys.stderr)
        except CommandError as error:
            problems.append(str(error))
        except OSError as error:
            problems.append(f"{path}: cannot be written ({error.strerror or error})")
    if problems:
        raise CommandError("; ".join(problems))


def _files(
    args: argparse.Namespace, sources: Sequence[Source], results: Sequence[Result]
) -> Iterator[tuple[Path, Callable[[Path], None]]]:
    for row, (source, result) in enumerate(zip(sources, results, strict=True)):
        if args.output:
            yield args.output[row], partial(_save_sound, result, source.samples)
        if args.text:
            yield args.text[row], partial(_save_texts, result)
        if args.tokens:
            yield args.tokens[row], partial(_save_tokens, result)


def _save_sound(result: Result, samples: int, path: Path) -> None:
    with closing(WavFile(path)) as target:
        target.write(np.concatenate(result.pcm)[:samples])


def _save_texts(result: Result, path: Path) -> None:
    path.write_text(json.dumps(result.texts, ensure_ascii=False) + "\n", encoding="utf-8")


def _save_tokens(result: Result, path: Path) -> None:
    # Given a name, numpy would add an ending to it.
    with path.open("wb") as file:
        np.savez(file, text=np.array(result.tokens, np.int64), agent=np.stack(result.codes))
