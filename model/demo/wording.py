"""The demo's tokenizer, and where in a spoken line each of its tokens stands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from model.checkpoint.fit import PAD
from model.tokenizer import WORD_START, Tokenizer
from model.vocabulary import TEXT, train_tokenizer

from .texts import Texts

TEXT_CARD = 280
EMPHASIS = 8
"""How often the demo's own sentences are repeated against those for the rest of the alphabet."""
PRINTABLE = " ".join(map(chr, range(33, 127)))
TEXT_LEAD = 2
"""Frames that a word's text is ahead of its sound."""


def write_tokenizer(texts: Texts, path: Path) -> Tokenizer:
    """Train on what the agent says and is told, and on every printable character."""
    own = [*texts.spoken, *(prompt for p in texts.personas for prompt in p.prompts)]
    sentences = [*own * EMPHASIS, *TEXT.splitlines(), PRINTABLE, "<system>"]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(train_tokenizer(sentences, TEXT_CARD))
    return Tokenizer(path)


def place_tokens(
    tokenizer: Tokenizer, text: str, words: Sequence[tuple[str, int]], frames: int
) -> Tensor:
    """Text row `[frames + TEXT_LEAD]` of a line of `frames` frames: a word's tokens from where it
    starts, one a frame, padding elsewhere. Raises `ValueError` where the line is too short."""
    row = torch.full((frames + TEXT_LEAD,), PAD)
    at = 0
    for index, tokens in enumerate(word_tokens(tokenizer, text)):
        if index < len(words):
            at = max(at, words[index][1])
        if at + len(tokens) > len(row):
            raise ValueError(f"{text!r} has more tokens than frames")
        row[at : at + len(tokens)] = torch.tensor(tokens)
        at += len(tokens)
    return row


def word_tokens(tokenizer: Tokenizer, text: str) -> list[list[int]]:
    """The tokens of each word, in order."""
    grouped: list[list[int]] = []
    for token in tokenizer.encode(text):
        if not grouped or tokenizer.piece(token).startswith(WORD_START):
            grouped.append([])
        grouped[-1].append(token)
    return grouped
