"""Everything that is said, as codes: the agent's lines, people's utterances, backgrounds.

Encoded once by the finished codec; calls for the language model are put together from these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.config import ModelConfig
from model.core import FRAME_SAMPLES, SAMPLE_RATE
from model.enrol import encode_frames, normalise_loudness
from model.mimi import Mimi
from model.tokenizer import Tokenizer

from .corpus import Corpus, Kind, Utterance
from .listening import BACKGROUNDS, Listening
from .progress import Progress
from .sounds import Rng
from .speakers import AGENT_PITCHES, Samples
from .together import share_out
from .whole import whole
from .wording import TEXT_LEAD, place_tokens

LEAD_FRAMES = 2
"""Of background before an utterance, and after it."""
CONTEXT_FRAMES = 16
"""Encoded before the lead and dropped: the codec's own memory."""
GAP_SECONDS = 10
ENCODE_BATCH = 8
CHUNK = 320
VOICE_TEXT = "The fish twisted and turned on the bent hook."
VOICE_SECONDS = 1.3
"""Length of the voice prompt: short, since prefill counts against a small context."""


@dataclass(frozen=True)
class Said:
    """One utterance as codes `[8, F]`; speech lies in frames `first` to `last - 1`."""

    codes: Tensor
    first: int
    last: int
    kind: Kind
    answer: str
    background: str


@dataclass(frozen=True)
class Take:
    """An utterance in its background, before encoding; frames count from behind the context."""

    samples: Samples
    first: int
    last: int
    background: str


@dataclass(frozen=True)
class Line:
    """One line of the agent: text row `[F]` and codes `[8, F]`, silent for the first frames."""

    text: Tensor
    codes: Tensor


@dataclass(frozen=True)
class Share:
    """Of the encoding, what one of `workers` processes does; every utterance `takes` times."""

    seed: int
    takes: int
    workers: int
    index: int = 0


Packed = tuple[NDArray[np.int16], int, int, Kind, str, str]
"""A `Said` on its way between processes, which carry arrays more cheaply than tensors."""


@dataclass(frozen=True)
class Bank:
    """Codes to put calls together from."""

    said: tuple[Said, ...]
    gaps: dict[str, tuple[Tensor, ...]]
    """By background, `[8, F]` each."""
    lines: dict[tuple[str, int], Line]
    """By text and voice."""
    voices: tuple[Tensor, ...]
    """Voice prompts, codes `[8, N]`."""

    def save(self, path: Path) -> None:
        state = {
            "said": [s.__dict__ for s in self.said],
            "gaps": {name: list(gaps) for name, gaps in self.gaps.items()},
            "lines": [(*key, line.text, line.codes) for key, line in self.lines.items()],
            "voices": list(self.voices),
        }
        with whole(path) as part:
            torch.save(state, part)

    @classmethod
    def load(cls, path: Path) -> Bank:
        """Raises `FileNotFoundError`."""
        state = torch.load(path, weights_only=True)
        return cls(
            tuple(Said(**s) for s in state["said"]),
            {name: tuple(gaps) for name, gaps in state["gaps"].items()},
            {(text, voice): Line(row, codes) for text, voice, row, codes in state["lines"]},
            tuple(state["voices"]),
        )


def build_bank(
    folder: Path, mimi: Mimi, config: ModelConfig, tokenizer: Tokenizer, share: Share
) -> Bank:
    """Encode all of the corpus in `folder`; people in as many processes as `share` says."""
    corpus = Corpus.load(folder)
    said = encode_everybody(folder, mimi, share)
    rng = np.random.default_rng([share.seed, 22])
    listening = Listening(corpus, share.seed)
    gaps = {kind: encode_gaps(listening, kind, mimi, rng) for kind in BACKGROUNDS}
    lines = {
        (line.text, line.voice): Line(
            place_tokens(tokenizer, line.text, line.words, line.samples // FRAME_SAMPLES),
            encode_line(mimi, config, corpus.agent(line)),
        )
        for line in corpus.lines
        if not line.general
    }
    return Bank(tuple(said), gaps, lines, voice_prompts(corpus, mimi))


def encode_everybody(folder: Path, mimi: Mimi, share: Share) -> list[Said]:
    """Every utterance `share.takes` times, in other conditions each time.

    The conditions follow from the seed and the chunk, so that the number of processes changes
    nothing.
    """
    shares = [replace(share, index=index) for index in range(share.workers)]
    parts = share_out(encode_share, [(folder, mimi, part) for part in shares], share.workers)
    chunks = {start: chunk for part in parts for start, chunk in part.items()}
    return [_unpack(packed) for start in sorted(chunks) for packed in chunks[start]]


def _unpack(packed: Packed) -> Said:
    codes, first, last, kind, answer, background = packed
    return Said(torch.from_numpy(codes), first, last, kind, answer, background)


def encode_share(folder: Path, mimi: Mimi, share: Share) -> dict[int, list[Packed]]:
    """Every `workers`th chunk of utterances, by where the chunk starts, fit to be sent."""
    listening = Listening(Corpus.load(folder), share.seed)
    utterances = listening.utterances * share.takes
    starts = range(share.index * CHUNK, len(utterances), share.workers * CHUNK)
    progress = Progress("people's codes", len(utterances))
    result: dict[int, list[Packed]] = {}
    for start in starts:
        rng = np.random.default_rng([share.seed, 21, start])
        chunk = utterances[start : start + CHUNK]
        said = _encode_takes([_take(listening, u, rng) for u in chunk], chunk, mimi)
        result[start] = [
            (s.codes.numpy(), s.first, s.last, s.kind, s.answer, s.background) for s in said
        ]
        progress.show(start + len(chunk))
    return result


def _encode_takes(takes: Sequence[Take], utterances: Sequence[Utterance], mimi: Mimi) -> list[Said]:
    """Those of like length are encoded together."""
    order = sorted(range(len(takes)), key=lambda index: len(takes[index].samples))
    codes: dict[int, Tensor] = {}
    for start in range(0, len(order), ENCODE_BATCH):
        part = order[start : start + ENCODE_BATCH]
        batch = encode_batch(mimi, [takes[index].samples for index in part])
        for index, row in zip(part, batch, strict=True):
            frames = len(takes[index].samples) // FRAME_SAMPLES
            codes[index] = row[:, CONTEXT_FRAMES:frames].to(torch.int16)
    return [
        Said(codes[index], take.first, take.last, u.kind, u.answer, take.background)
        for index, (take, u) in enumerate(zip(takes, utterances, strict=True))
    ]


def encode_batch(mimi: Mimi, sounds: Sequence[Samples]) -> Tensor:
    """Codes `[B, 8, F]` of sounds of whole frames, zeros behind the shorter ones."""
    size = max(map(len, sounds))
    pcm = torch.from_numpy(np.stack([np.pad(x, (0, size - len(x))) for x in sounds]))
    with torch.inference_mode():
        return mimi.quantize_latent(mimi.encode_latent_sequence(pcm[:, None])).codes


def _take(listening: Listening, utterance: Utterance, rng: Rng) -> Take:
    """Context, lead, speech at some offset within its frame, tail."""
    heard = listening.person(rng, utterance).samples
    kind = listening.background_kind(rng)
    offset = int(rng.integers(0, FRAME_SAMPLES))
    before = (CONTEXT_FRAMES + LEAD_FRAMES) * FRAME_SAMPLES + offset
    frames = -(-(before + len(heard)) // FRAME_SAMPLES)
    samples = listening.background(rng, kind, (frames + LEAD_FRAMES) * FRAME_SAMPLES)
    samples[before : before + len(heard)] += heard
    return Take(samples, LEAD_FRAMES, frames - CONTEXT_FRAMES, kind)


def encode_gaps(
    listening: Listening, kind: str, mimi: Mimi, rng: Rng, count: int = 8
) -> tuple[Tensor, ...]:
    """Stretches of background without anyone."""
    size = int(GAP_SECONDS * SAMPLE_RATE / FRAME_SAMPLES + CONTEXT_FRAMES) * FRAME_SAMPLES
    sounds = [listening.background(rng, kind, size) for _ in range(count)]
    return tuple(encode_batch(mimi, sounds)[:, :, CONTEXT_FRAMES:].to(torch.int16))


def encode_line(mimi: Mimi, config: ModelConfig, samples: Samples) -> Tensor:
    """Codes `[8, TEXT_LEAD + F]` of a line after long silence, with the silence code in front."""
    lead = CONTEXT_FRAMES * FRAME_SAMPLES
    codes = encode_frames(mimi, np.pad(samples, (lead, 0)))[:, CONTEXT_FRAMES:]
    silence = torch.tensor(config.silence_codes)[:, None].expand(-1, TEXT_LEAD)
    return torch.cat([silence, codes], dim=1)


def voice_clip(corpus: Corpus, voice: int) -> Samples:
    """What the voice of this index is enrolled from."""
    line = next(a for a in corpus.lines if a.voice == voice and a.text == VOICE_TEXT)
    return corpus.agent(line)[: int(VOICE_SECONDS * SAMPLE_RATE)]


def voice_prompts(corpus: Corpus, mimi: Mimi) -> tuple[Tensor, ...]:
    """The codes of every voice's prompt, as enrolment makes them."""
    return tuple(
        encode_frames(mimi, normalise_loudness(voice_clip(corpus, voice)))
        for voice in range(len(AGENT_PITCHES))
    )
