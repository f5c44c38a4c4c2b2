"""The evaluation's casts: who calls, in which voice and background, and what would be right.

Everything comes from voices and sentences that training never used, and from a seed of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
import soxr

from model.core import FRAME_SAMPLES, SAMPLE_RATE

from . import sounds
from .corpus import Corpus, Utterance, normalise, trim
from .people import Background, Person, Turn, looped, nobody, silence
from .sounds import Rng
from .speakers import (
    UNSEEN,
    UNSEEN_SYNTHESISER,
    UNSEEN_VARIANTS,
    UNSEEN_VOICE,
    Samples,
    Speaker,
)
from .texts import Texts

QUIET_SECONDS = 60
SPEECH_RMS = 0.1
NOISE_BELOW = 10 ** (-10 / 20)
ECHO = 10 ** (-30 / 20)
ECHO_FRAMES = 2
TRACK = 12 * SAMPLE_RATE
HUMAN_SECONDS = (1.0, 6.0)


@dataclass(frozen=True)
class Extent:
    """How much is evaluated."""

    answers: int = 200
    """Turns a figure, about."""
    recognised: int = 200
    """Answers read back with a large vocabulary, which is slow."""
    turns: int = 10
    """Turns a call; twice as many in a long one."""


@dataclass
class Scene:
    """People of one kind; `name` is the figure that they are for."""

    name: str
    people: list[Person]
    frames: int


@dataclass(frozen=True)
class Echo:
    """What the person's loudspeaker played two frames ago, 30 dB lower."""

    person: Person

    def __call__(self, frame: int) -> Samples:
        played = frame - ECHO_FRAMES
        if not 0 <= played < len(self.person.heard):
            return silence(frame)
        return self.person.heard[played] * np.float32(ECHO)


class Casting:
    """Puts scenes together from the corpus's test utterances."""

    def __init__(self, texts: Texts, corpus: Corpus, seed: int, extent: Extent) -> None:
        self.texts, self.corpus, self.extent = texts, corpus, extent
        self.rng = np.random.default_rng([seed, 99])
        self._test = [u for u in corpus.utterances if u.split == "test"]
        self._fallbacks = tuple(f.say for f in texts.fallbacks)

    def scenes(self, human: Path | None) -> list[Scene]:
        """Every figure's people; those who are recorded only where a folder of them is given."""
        turns = self.extent.turns
        calls = -(-self.extent.answers // turns)
        long_calls = -(-self.extent.answers // (turns // 2 or 1))
        variants, everyone = _names(UNSEEN_VARIANTS), _names(UNSEEN)
        noise = {
            "pink_10_db": looped(sounds.pink(self.rng, TRACK), SPEECH_RMS * NOISE_BELOW),
            "babble_10_db": looped(self._babble(), SPEECH_RMS * NOISE_BELOW),
        }
        scenes = [
            self._asking("known", "known", variants, calls),
            self._asking("unseen_voice", "known", _names(UNSEEN_VOICE), calls),
            self._asking("unseen_synthesiser", "known", _names(UNSEEN_SYNTHESISER), calls),
            self._asking("off_topic", "off_topic", everyone, calls),
            self._asking("near_miss", "near_miss", everyone, calls),
            self._asking("telephone", "known", variants, calls, effect=sounds.telephone),
            *(self._asking(n, "known", variants, calls, background=b) for n, b in noise.items()),
            self._asking("interruption", "known", variants, calls, interrupting=True),
            self._asking("long", "known", variants, long_calls, turns=2 * turns),
            self._quiet(),
        ]
        if human is not None:
            scenes.append(self._human(human))
        return scenes

    def _asking(
        self,
        name: str,
        kind: str,
        voices: Sequence[str],
        calls: int,
        *,
        turns: int | None = None,
        background: Background = silence,
        effect: Callable[[Samples], Samples] = lambda samples: samples,
        interrupting: bool = False,
    ) -> Scene:
        pool = [u for u in self._test if u.kind == kind and u.voice in voices]
        people = []
        turns = turns or self.extent.turns
        for _ in range(calls):
            chosen = [pool[i] for i in self.rng.integers(0, len(pool), turns)]
            asked = [self._turn(u, effect) for u in chosen]
            people.append(Person(asked, background, self._own(), interrupting))
        return Scene(name, people, 90 * turns + 100)

    def _turn(self, utterance: Utterance, effect: Callable[[Samples], Samples]) -> Turn:
        right = (utterance.answer,) if utterance.answer else self._fallbacks
        return Turn(effect(self.corpus.user(utterance)), right, utterance.voice)

    def _quiet(self) -> Scene:
        frames = QUIET_SECONDS * SAMPLE_RATE // FRAME_SAMPLES
        makers = (sounds.white, sounds.pink, sounds.hum, sounds.keyboard, sounds.music)
        people = [nobody(frames, silence, self._own())]
        for make in makers:
            track = looped(make(self.rng, TRACK), 0.01)
            people.append(nobody(frames, track, self._own()))
        echoing = nobody(frames, silence, self._own())
        echoing.background = Echo(echoing)
        return Scene("quiet", [*people, echoing], frames + 1)

    def _human(self, folder: Path) -> Scene:
        paths = sorted(folder.rglob("*.wav"))
        self.rng.shuffle(paths)  # type: ignore[arg-type]
        clips: list[Samples] = []
        for path in paths:
            samples = _recording(path)
            if HUMAN_SECONDS[0] <= len(samples) / SAMPLE_RATE <= HUMAN_SECONDS[1]:
                clips.append(samples)
            if len(clips) == self.extent.answers:
                break
        turns = [Turn(clip, self._fallbacks, "human") for clip in clips]
        size = self.extent.turns
        rows = [turns[i : i + size] for i in range(0, len(turns), size)]
        people = [Person(row, silence, self._own()) for row in rows]
        return Scene("human", people, 130 * size)

    def _babble(self) -> Samples:
        pool = [u for u in self._test if u.kind == "off_topic"]
        return sounds.babble(
            self.rng, TRACK, lambda: self.corpus.user(pool[self.rng.integers(len(pool))])
        )

    def _own(self) -> Rng:
        return np.random.default_rng(self.rng.integers(1 << 32))


def _names(speakers: Sequence[Speaker]) -> list[str]:
    return [speaker.name for speaker in speakers]


def _recording(path: Path) -> Samples:
    samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    mono: Samples = soxr.resample(samples[:, 0], rate, SAMPLE_RATE).astype(np.float32)
    return normalise(trim(mono)) if np.abs(mono).max() > 0 else mono[:0]
