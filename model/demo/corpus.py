"""The speech that the demo is trained and tested on: synthesised, trimmed, aligned, stored.

Deterministic for a seed and a version of the synthesisers. Knows nothing of models.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from model.core import FRAME_SAMPLES, SAMPLE_RATE

from .align import STEP_SECONDS, Aligner, plain
from .progress import Progress
from .sounds import rms
from .speakers import (
    AGENT_PITCHES,
    TRAINED,
    UNSEEN,
    Samples,
    Speaker,
    speak,
    speak_agent,
)
from .texts import Texts
from .whole import whole

AGENT_GAIN = 2.0
"""kal16 is quiet: this takes its speech to about `SPEECH_RMS`."""
Kind = Literal["known", "off_topic", "near_miss"]
SPEECH_RMS = 0.1
QUIET = 0.02
"""Of the peak; what is below at either end of an utterance is cut off."""
MARGIN_SECONDS = 0.02
TUNES = 2
"""Speeds and pitches in which espeak-ng's voices say their share of the sentences."""
INDEX = "corpus.json"


@dataclass(frozen=True)
class Utterance:
    """One sentence of a person; `phones` are indices every 10 ms, empty where not aligned."""

    text: str
    kind: Kind
    answer: str
    """What the agent has to say, empty for a fallback by length."""
    voice: str
    split: Literal["train", "test"]
    samples: int
    phones: tuple[int, ...] = ()
    start: int = 0


@dataclass(frozen=True)
class AgentLine:
    """One sentence of one of the agent's voices, cut on frame boundaries."""

    text: str
    voice: int
    """Index into `AGENT_PITCHES`."""
    samples: int
    words: tuple[tuple[str, int], ...]
    """Each word with the frame in which it starts."""
    general: bool = False
    """True where it is only said to train the codec."""
    start: int = 0


Placed = TypeVar("Placed", Utterance, AgentLine)


@dataclass(frozen=True)
class Corpus:
    """Utterances and lines over two long arrays of int16 samples."""

    utterances: tuple[Utterance, ...]
    lines: tuple[AgentLine, ...]
    user_pcm: NDArray[np.int16]
    agent_pcm: NDArray[np.int16]

    def user(self, utterance: Utterance) -> Samples:
        return _cut(self.user_pcm, utterance.start, utterance.samples)

    def agent(self, line: AgentLine) -> Samples:
        return _cut(self.agent_pcm, line.start, line.samples)

    @classmethod
    def load(cls, folder: Path) -> Corpus:
        """Raises `FileNotFoundError` where `python -m model.demo corpus` has not run."""
        raw = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        return cls(
            tuple(Utterance(**{**u, "phones": tuple(u["phones"])}) for u in raw["utterances"]),
            tuple(
                AgentLine(**{**a, "words": tuple((w, f) for w, f in a["words"])})
                for a in raw["lines"]
            ),
            np.load(folder / "user.npy", mmap_mode="r"),
            np.load(folder / "agent.npy", mmap_mode="r"),
        )


@dataclass(frozen=True)
class Size:
    """How many voices say each known wording and each other sentence, and how many are aligned."""

    known_voices: int = 24
    other_voices: int = 5
    align_every: int = 2
    speakers: tuple[Speaker, ...] = TRAINED
    unseen: tuple[Speaker, ...] = UNSEEN


def build_corpus(texts: Texts, folder: Path, seed: int, size: Size, workers: int) -> Corpus:
    """Synthesise everything into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / INDEX).unlink(missing_ok=True)  # it comes last: the sound of a stopped run has none
    jobs = list(plan(texts, seed, size))
    said: list[tuple[Utterance, Samples]] = []
    with get_context("spawn").Pool(workers) as pool:
        lines = pool.map(_say_line, _line_jobs(texts))
        progress = Progress("corpus", len(jobs))
        for done, part in enumerate(pool.imap(_say_job, jobs), 1):
            said += part
            progress.show(done)
    utterances, user = _join(said)
    agent_lines, agent = _join(lines)
    np.save(folder / "user.npy", user)
    np.save(folder / "agent.npy", agent)
    index = {
        "utterances": [asdict(u) for u in utterances],
        "lines": [asdict(a) for a in agent_lines],
    }
    with whole(folder / INDEX) as path:
        path.write_text(json.dumps(index), encoding="utf-8")
    return Corpus.load(folder)


@dataclass(frozen=True)
class Job:
    """What one speaker says."""

    speaker: Speaker
    split: Literal["train", "test"]
    sentences: tuple[tuple[str, Kind, str], ...]
    align_every: int


def plan(texts: Texts, seed: int, size: Size) -> Iterable[Job]:
    """Spread the sentences over the voices; unseen voices say half of the known wordings."""
    rng = np.random.default_rng(seed)
    known = [(q, "known", a) for q, a in texts.questions]
    others = [(s, "off_topic", "") for s in texts.off_topic.train]
    others += [(s, "near_miss", "") for s in texts.near_miss.train]
    for speaker, share in _spread(rng, known, size.known_voices, others, size):
        for tune in range(TUNES):
            speed, pitch = int(rng.integers(135, 190)), int(rng.integers(25, 75))
            tuned = Speaker(speaker.program, speaker.voice, speed, pitch)
            yield Job(tuned, "train", share[tune::TUNES], size.align_every)
    tests = [*known[::2], *((s, "off_topic", "") for s in texts.off_topic.test)]
    tests += [(s, "near_miss", "") for s in texts.near_miss.test]
    for speaker in size.unseen:
        yield Job(speaker, "test", tuple(tests), 0)  # type: ignore[arg-type]


def _spread(
    rng: np.random.Generator,
    known: Sequence[tuple[str, str, str]],
    known_voices: int,
    others: Sequence[tuple[str, str, str]],
    size: Size,
) -> Iterable[tuple[Speaker, tuple[tuple[str, Kind, str], ...]]]:
    shares: list[list[tuple[str, str, str]]] = [[] for _ in size.speakers]
    for sentences, voices in ((known, known_voices), (others, size.other_voices)):
        for sentence in sentences:
            count = min(voices, len(shares))
            for index in rng.choice(len(shares), count, replace=False):
                shares[index].append(sentence)
    for speaker, share in zip(size.speakers, shares, strict=True):
        yield speaker, tuple(share)  # type: ignore[arg-type]


def _say_job(job: Job) -> list[tuple[Utterance, Samples]]:
    aligner = Aligner() if job.align_every else None
    spoken = speak(job.speaker, [text for text, _, _ in job.sentences])
    result = []
    for index, ((text, kind, answer), raw) in enumerate(zip(job.sentences, spoken, strict=True)):
        samples = normalise(trim(raw))
        phones: tuple[int, ...] = ()
        if aligner is not None and index % job.align_every == 0:
            aligned = aligner.align(samples, text)
            phones = () if aligned is None else aligned.phones
        utterance = Utterance(text, kind, answer, job.speaker.name, job.split, len(samples), phones)
        result.append((utterance, samples))
    return result


def _say_line(job: tuple[int, str, bool]) -> tuple[AgentLine, Samples]:
    voice, text, general = job
    raw = speak_agent(AGENT_PITCHES[voice], text)
    samples = frame_aligned(raw) * np.float32(AGENT_GAIN)
    aligned = Aligner().align(samples, text)
    words = spread_words(text, samples) if aligned is None else aligned.words
    frames = tuple((w, int(t * SAMPLE_RATE) // FRAME_SAMPLES) for w, t in words)
    return AgentLine(text, voice, len(samples), frames, general), samples


def spread_words(text: str, samples: Samples) -> tuple[tuple[str, float], ...]:
    """Each word with a start in seconds in proportion to the letters before it."""
    words = plain(text).split()
    letters = np.cumsum([0, *(len(word) + 1 for word in words)])
    seconds = len(samples) / SAMPLE_RATE
    return tuple(
        (w, float(n / letters[-1] * seconds)) for w, n in zip(words, letters, strict=False)
    )


def _line_jobs(texts: Texts) -> list[tuple[int, str, bool]]:
    voices = range(len(AGENT_PITCHES))
    said = [(voice, text, False) for voice in voices for text in texts.spoken]
    return said + [(voice, text, True) for voice in voices for text in texts.general]


def speech_bounds(samples: Samples) -> tuple[int, int]:
    """First and last sample that is not quiet, of the 10 ms windows."""
    window = int(SAMPLE_RATE * STEP_SECONDS)
    count = len(samples) // window
    peaks = np.abs(samples[: count * window]).reshape(count, window).max(1)
    loud = np.flatnonzero(peaks > QUIET * peaks.max())
    return int(loud[0]) * window, (int(loud[-1]) + 1) * window


def trim(samples: Samples) -> Samples:
    """Cut the silence off either end, but for a small margin."""
    margin = int(MARGIN_SECONDS * SAMPLE_RATE)
    start, stop = speech_bounds(samples)
    return samples[max(0, start - margin) : stop + margin]


def normalise(samples: Samples) -> Samples:
    """To `SPEECH_RMS`."""
    scaled: Samples = samples * np.float32(SPEECH_RMS / max(1e-6, rms(samples)))
    return scaled


def frame_aligned(samples: Samples) -> Samples:
    """Drop whole silent frames at the ends, so that the phase within frames is kept."""
    start, stop = speech_bounds(samples)
    first, last = start // FRAME_SAMPLES, -(-stop // FRAME_SAMPLES)
    cut = samples[first * FRAME_SAMPLES : last * FRAME_SAMPLES]
    return np.pad(cut, (0, -len(cut) % FRAME_SAMPLES))


def _join(parts: Sequence[tuple[Placed, Samples]]) -> tuple[list[Placed], NDArray[np.int16]]:
    placed, start = [], 0
    for item, samples in parts:
        placed.append(replace(item, start=start))
        start += len(samples)
    pcm = np.concatenate([samples for _, samples in parts])
    return placed, (np.clip(pcm, -1, 1) * 32767).astype(np.int16)


def _cut(pcm: NDArray[np.int16], start: int, samples: int) -> Samples:
    return pcm[start : start + samples].astype(np.float32) / np.float32(32768)
