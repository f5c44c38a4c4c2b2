"""The figures of a demo checkpoint: simulated calls, counted and read back by a recogniser."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from model.checkpoint.load import Checkpoint, load_checkpoint

from .calling import run_calls
from .corpus import Corpus
from .people import Outcome, Person
from .recognise import ClosedSet, OpenWords, word_errors
from .scenes import Casting, Extent, Scene
from .texts import Texts

ROWS = 24
"""Calls at once."""
ANSWER_SECONDS = 1.0
STOP_SECONDS = 0.5
GREETING_SECONDS = 1.5

Figures = dict[str, Any]


def evaluate(
    folder: Path,
    texts: Texts,
    corpus: Corpus,
    seed: int,
    extent: Extent,
    human: Path | None,
    only: Sequence[str] = (),
) -> Figures:
    """All figures of the checkpoint in `folder`, or those of the scenes named in `only`."""
    checkpoint = load_checkpoint(str(folder), device=torch.device("cpu"))
    casting = Casting(texts, corpus, seed, extent)
    scenes = [s for s in casting.scenes(human) if not only or s.name in only]
    wanted = _hold_calls(checkpoint, texts, scenes)
    figures: Figures = {"seed": seed}
    for scene in scenes:
        figures[scene.name] = _figures(scene, texts)
    figures["greeting"] = _greeting(scenes, wanted)
    heard = [s for s in scenes if s.name in ("known", "off_topic", "near_miss")]
    figures["speech"] = _speech(heard, texts, wanted, extent.recognised, seed)
    return figures


def _hold_calls(checkpoint: Checkpoint, texts: Texts, scenes: Sequence[Scene]) -> dict[int, str]:
    """Run every scene's calls, those of like length together; the greeting due to each person."""
    calls = sorted(
        ((scene.frames, person) for scene in scenes for person in scene.people),
        key=lambda call: call[0],
    )
    voices = checkpoint.info.voices
    wanted: dict[int, str] = {}
    for start in range(0, len(calls), ROWS):
        part = calls[start : start + ROWS]
        chosen = [texts.personas[i % len(texts.personas)] for i in range(len(part))]
        wanted |= {id(p): c.greeting for (_, p), c in zip(part, chosen, strict=True)}
        run_calls(
            checkpoint,
            [person for _, person in part],
            [persona.prompt for persona in chosen],
            [voices[0] if i % 3 else voices[-1] for i in range(len(part))],
            max(frames for frames, _ in part),
        )
    return wanted


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
    kinds = Counter(_kind(outcome, texts) for outcome in outcomes)
    total = max(1, len(outcomes))
    return {k: kinds[k] / total for k in ("right", "fallback", "wrong", "garbled", "nothing")}


def _kind(outcome: Outcome, texts: Texts) -> str:
    said = _squeeze(outcome.said)
    if said in outcome.turn.right:
        return "right"
    if said in {f.say for f in texts.fallbacks}:
        return "fallback"
    if said in {t.say for t in texts.topics}:
        return "wrong"
    return "garbled" if said else "nothing"


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


def _greeting(scenes: Sequence[Scene], wanted: dict[int, str]) -> Figures:
    people = [person for scene in scenes for person in scene.people]
    return {
        "calls": len(people),
        "right": _mean([_squeeze(p.greeting).startswith(wanted[id(p)]) for p in people]),
        "within_1_5_s": _mean(
            [p.greeted is not None and p.greeted <= GREETING_SECONDS for p in people]
        ),
    }


def _speech(
    scenes: Sequence[Scene], texts: Texts, wanted: dict[int, str], recognised: int, seed: int
) -> Figures:
    """Is what was heard what the text says? Answers cut off by the end of a call are left out."""
    spoken = []
    for scene in scenes:
        for person in scene.people:
            spoken.append((wanted[id(person)], person.greeting_sound()))
            spoken += [
                (_squeeze(o.said), person.answer_sound(o))
                for o in person.outcomes
                if _squeeze(o.said) in texts.spoken
            ]
    order = np.random.default_rng(seed).permutation(len(spoken))
    closed, words = ClosedSet(texts.spoken), OpenWords()
    hits = [closed.recognise(spoken[i][1]) == spoken[i][0] for i in order[: 3 * recognised]]
    counted = [word_errors(spoken[i][0], words.recognise(spoken[i][1])) for i in order[:recognised]]
    return {
        "closed_set": len(hits),
        "closed_set_right": _mean(hits),
        "open": len(counted),
        "open_word_error": sum(e for e, _ in counted) / max(1, sum(n for _, n in counted)),
    }


def _squeeze(text: str) -> str:
    return " ".join(text.split())


def _mean(values: Sequence[bool]) -> float | None:
    return float(np.mean(values)) if values else None
