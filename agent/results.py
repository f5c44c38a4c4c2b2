"""What `offline` has computed of one input, and the files that hold it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from agent.sources import Source
from agent.wav import open_wav


@dataclass
class Result:
    """What one row has said so far."""

    pcm: list[NDArray[np.float32]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    codes: list[NDArray[np.int64]] = field(default_factory=list)


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
