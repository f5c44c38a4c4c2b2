"""Draws what the agent may hear: utterances in many conditions, and backgrounds without speech.

Used for training the codec's ear and for the language model's bank of codes. Knows nothing of
models.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from model.core import SAMPLE_RATE

from . import sounds
from .align import STEP_SECONDS
from .corpus import SPEECH_RMS, Corpus, Utterance
from .sounds import Rng
from .speakers import Samples

TRACK_SECONDS = 12
TRACKS = 12
STEP = int(SAMPLE_RATE * STEP_SECONDS)
BACKGROUNDS = ("clean", "white", "pink", "hum", "keyboard", "music", "babble", "echo")
WEIGHTS = (0.42, 0.12, 0.14, 0.04, 0.04, 0.06, 0.14, 0.04)
LEVELS = {
    "clean": (0.00001, 0.0006),
    "white": (0.0005, 0.02),
    "pink": (0.001, 0.04),
    "hum": (0.001, 0.03),
    "keyboard": (0.001, 0.02),
    "music": (0.001, 0.03),
    "babble": (0.001, 0.04),
    "echo": (0.001, 0.006),
}
"""RMS of each background, lowest and highest, where speech is `SPEECH_RMS`."""


@dataclass(frozen=True)
class Heard:
    """Samples with the phone spoken every 10 ms, `phones` empty where it is not known."""

    samples: Samples
    phones: tuple[int, ...]


class Listening:
    """Conditions over one corpus. The tracks of noise are made once, from `seed`."""

    def __init__(self, corpus: Corpus, seed: int, split: str = "train") -> None:
        self.corpus = corpus
        self.utterances = [u for u in corpus.utterances if u.split == split]
        rng = np.random.default_rng([seed, 7])
        count = TRACK_SECONDS * SAMPLE_RATE
        makers = {
            "white": sounds.white,
            "pink": sounds.pink,
            "hum": sounds.hum,
            "keyboard": sounds.keyboard,
            "music": sounds.music,
            "babble": lambda r, n: sounds.babble(r, n, lambda: self._anyone(r)),
            "echo": self._echo,
        }
        self._tracks = {
            name: [make(rng, count) for _ in range(TRACKS)] for name, make in makers.items()
        }
        self._tracks["clean"] = self._tracks["white"]

    def _anyone(self, rng: Rng) -> Samples:
        return self.corpus.user(self.utterances[rng.integers(len(self.utterances))])

    def _echo(self, rng: Rng, count: int) -> Samples:
        """The agent's own lines, one after another."""
        parts: list[Samples] = []
        while sum(map(len, parts)) < count:
            line = self.corpus.lines[rng.integers(len(self.corpus.lines))]
            parts += [self.corpus.agent(line), np.zeros(SAMPLE_RATE // 4, dtype=np.float32)]
        samples = np.concatenate(parts)[:count]
        return samples / np.float32(sounds.rms(samples))

    def background_kind(self, rng: Rng) -> str:
        return BACKGROUNDS[rng.choice(len(BACKGROUNDS), p=WEIGHTS)]

    def background(self, rng: Rng, kind: str, count: int) -> Samples:
        """`count` samples of one kind at a random level."""
        track = self._tracks[kind][rng.integers(TRACKS)]
        start = int(rng.integers(0, len(track)))
        low, high = np.log(LEVELS[kind])
        level = np.float32(np.exp(rng.uniform(low, high)))
        return np.take(track, np.arange(start, start + count), mode="wrap") * level

    def person(self, rng: Rng, utterance: Utterance) -> Heard:
        """The utterance as some person at some microphone would say it, without background."""
        samples = self.corpus.user(utterance)
        factor = float(np.exp(rng.uniform(np.log(0.84), np.log(1.2))))
        samples = sounds.stretch(samples, factor)
        if rng.random() < 0.5:
            samples = sounds.tilt(samples, rng.uniform(-12, 12))
        if rng.random() < 0.3:
            samples = sounds.room(samples, rng, rng.uniform(0.1, 0.4))
        if rng.random() < 0.25:
            samples = sounds.telephone(samples)
        level = SPEECH_RMS * 10 ** (rng.uniform(-12, 4) / 20) / max(1e-4, sounds.rms(samples))
        samples = np.clip(samples * np.float32(level), -1, 1)
        count = len(samples) // STEP
        places = np.minimum(np.arange(count) / factor, len(utterance.phones) - 1).astype(int)
        phones = tuple(utterance.phones[p] for p in places) if utterance.phones else ()
        return Heard(samples, phones)
