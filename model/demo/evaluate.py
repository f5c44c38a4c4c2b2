"""The figures of a demo checkpoint: simulated calls, counted and read back by a recogniser."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from model.checkpoint.load import load_checkpoint

from .calling import run_calls
from .people import Outcome, Person
from .recognise import ClosedSet, OpenWords, word_errors
from .scenes import Scene
from .speakers import Samples
from .texts import Texts
from .together import share_out

ROWS = 48
"""Calls at once."""
ANSWER_SECONDS = 1.0
STOP_SECONDS = 0.5
GREETING_SECONDS = 1.5

Figures = dict[str, Any]
Said = tuple[str, Samples]
"""What the text says, and what was heard."""


@dataclass(frozen=True)
class Party:
    """People whose calls are held together, for at most `frames`, and what each agent is told."""

    people: list[Person]
    personas: list[str]
    frames: int


def evaluate(
    folder: Path,
    texts: Texts,
    scenes: Sequence[Scene],
    recognised: int,
    seed: int,
    workers: int,
) -> Figures:
    """The figures of the checkpoint in `folder` in `scenes`, and of all that it said in them."""
    _hold_calls(folder, texts, scenes, workers)
    figures: Figures = {scene.name: _figures(scene, texts) for scene in scenes}
    figures["greeting"] = _greeting(scenes)
    heard = [s for s in scenes if s.name in ("known", "off_topic", "near_miss")]
    figures["speech"] = _speech(heard, texts, recognised, seed, workers)
    return figures


def _hold_calls(folder: Path, texts: Texts, scenes: Sequence[Scene], workers: int) -> None:
    """Hold every scene's calls, those of like length together, and put the people back."""
    seats = [(scene, index) for scene in scenes for index in range(len(scene.people))]
    seats.sort(key=lambda seat: seat[0].frames, reverse=True)
    tables = [seats[start : start + ROWS] for start in range(0, len(seats), ROWS)]
    jobs = [(folder, _party(table, texts)) for table in tables]
    parts = share_out(hold, jobs, workers)
    for table, people in zip(tables, parts, strict=True):
        for (scene, index), person in zip(table, people, strict=True):
            scene.people[index] = person


def _party(table: Sequence[tuple[Scene, int]], texts: Texts) -> Party:
    people = [scene.people[index] for scene, index in table]
    personas = [texts.personas[row % len(texts.personas)] for row in range(len(people))]
    for person, persona in zip(people, personas, strict=True):
        person.due = persona.greeting
    return Party(people, [p.prompt for p in personas], max(scene.frames for scene, _ in table))


def hold(folder: Path, party: Party) -> list[Person]:
    """The people after their calls; two in three talk to the first voice."""
    checkpoint = load_checkpoint(str(folder), device=torch.device("cpu"))
    first, last = checkpoint.info.voices[0], checkpoint.info.voices[-1]
    voices = [first if row % 3 else last for row in range(len(party.people))]
    run_calls(checkpoint, party.people, party.personas, voices, party.frames)
    return party.people


def _figures(scene: Scene, texts: Texts) -> Figures:
    outcomes = [outcome for person in scene.people for outcome in person.outcomes]
    if scene.name == "quiet":
        return _unasked(scene.people, texts)
    figures: Figures = {"turns": len(outcomes)} | _shares(outcomes, texts)
    latencies = [o.latency for o in outcomes if o.latency is not None]
    figures["within_1_s"] = _mean([o.latency is not None and o.latency <= 1 for o in outcomes])
    figures["latency_median_s"] = float(np.median(latencies)) if latencies else None
    figures["early"] = _mean([o.early for o in outcomes])
    if scene.name == "interruption":
        cut = [o.stopped or 0.0 for o in outcomes if o.interrupting]
        figures["interruptions"] = len(cut)
        figures["stopped_within_0_5_s"] = _mean([s <= STOP_SECONDS for s in cut])
    if scene.name == "long":
        figures |= _by_age(scene.people, texts)
    return figures


def _shares(outcomes: Sequence[Outcome], texts: Texts) -> Figures:
    kinds = Counter(judge(outcome, texts) for outcome in outcomes)
    total = max(1, len(outcomes))
    return {k: kinds[k] / total for k in ("right", "fallback", "wrong", "garbled", "nothing")}


def judge(outcome: Outcome, texts: Texts) -> str:
    """Was the answer right, a fallback, wrong (another's), garbled, or nothing?"""
    if not _squeeze(outcome.said):
        return "nothing"
    if _is_said(outcome, outcome.turn.right):
        return "right"
    if _is_said(outcome, [f.say for f in texts.fallbacks]):
        return "fallback"
    return "wrong" if _is_said(outcome, [t.say for t in texts.topics]) else "garbled"


def _is_said(outcome: Outcome, lines: Sequence[str]) -> bool:
    """Is one of `lines` what the agent said, or began to say before it was interrupted?"""
    said = _squeeze(outcome.said)
    return any(said == line or (outcome.cut and line.startswith(said)) for line in lines)


def _unasked(people: Sequence[Person], texts: Texts) -> Figures:
    """What was said to nobody: at most the one prompt is right."""
    said = [_squeeze(o.during + o.said) for person in people for o in person.outcomes]
    false = [words for words in said if words not in ("", texts.silence_prompt)]
    return {
        "calls": len(said),
        "prompted": _mean([words == texts.silence_prompt for words in said]),
        "false": len(false),
        "false_words": false,
    }


def _by_age(people: Sequence[Person], texts: Texts) -> Figures:
    """The first quarter of the turns against the last, in calls that lasted so long."""
    quarter = max(1, len(people[0].turns) // 4)
    early = [o for p in people for o in p.outcomes[:quarter]]
    late = [o for p in people for o in p.outcomes[len(p.turns) - quarter :]]
    return {
        "first_quarter_right": _shares(early, texts)["right"],
        "last_quarter_right": _shares(late, texts)["right"],
    }


def _greeting(scenes: Sequence[Scene]) -> Figures:
    people = [person for scene in scenes for person in scene.people]
    return {
        "calls": len(people),
        "right": _mean([_squeeze(p.greeting).startswith(p.due) for p in people]),
        "within_1_5_s": _mean(
            [p.greeted is not None and p.greeted <= GREETING_SECONDS for p in people]
        ),
    }


def _speech(
    scenes: Sequence[Scene], texts: Texts, recognised: int, seed: int, workers: int
) -> Figures:
    """Is what was heard what the text says? Answers cut off by the end of a call are left out."""
    said: list[Said] = []
    for scene in scenes:
        for person in scene.people:
            said.append((person.due, person.greeting_sound()))
            said += [
                (_squeeze(o.said), person.answer_sound(o))
                for o in person.outcomes
                if _squeeze(o.said) in texts.spoken
            ]
    order = np.random.default_rng(seed).permutation(len(said))
    closed = [said[i] for i in order[: 3 * recognised]]
    opened = [said[i] for i in order[:recognised]]
    jobs = [(texts.spoken, closed[n::workers], opened[n::workers]) for n in range(workers)]
    parts = share_out(read_back, jobs, workers)
    errors = sum(e for _, counted in parts for e, _ in counted)
    words = sum(n for _, counted in parts for _, n in counted)
    return {
        "closed_set": len(closed),
        "closed_set_right": _mean([hit for hits, _ in parts for hit in hits]),
        "open": len(opened),
        "open_word_error": errors / max(1, words),
    }


def read_back(
    spoken: Sequence[str], closed: Sequence[Said], opened: Sequence[Said]
) -> tuple[list[bool], list[tuple[int, int]]]:
    """Which of `closed` are recognised among `spoken`, and the word errors of `opened`."""
    choice, words = ClosedSet(spoken), OpenWords()
    hits = [choice.recognise(sound) == text for text, sound in closed]
    return hits, [word_errors(text, words.recognise(sound)) for text, sound in opened]


def _squeeze(text: str) -> str:
    return " ".join(text.split())


def _mean(values: Sequence[bool]) -> float | None:
    return float(np.mean(values)) if values else None
