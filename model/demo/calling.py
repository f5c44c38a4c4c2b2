"""Runs many simulated people against a checkpoint at once, frame by frame, as a server would."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from model.checkpoint.load import Checkpoint
from model.prefill import prefill
from model.prompt import build_prompt
from model.step import FrameStep
from model.tokenizer import TextJoiner

from .people import Person
from .progress import Progress

SHOW_EVERY = 50


def run_calls(
    checkpoint: Checkpoint,
    people: Sequence[Person],
    personas: Sequence[str],
    voices: Sequence[str],
    max_frames: int,
) -> int:
    """Greedy calls, one a person, until all have done; the number of frames."""
    step = FrameStep(checkpoint.lm, checkpoint.mimi, checkpoint.info.config, len(people))
    positions = []
    for slot, (persona, voice) in enumerate(zip(personas, voices, strict=True)):
        tokens = checkpoint.tokenizer.encode_persona(persona)
        prompt = build_prompt(checkpoint.voices.read(voice), tokens, checkpoint.info.config)
        step.admit(slot, prefill(checkpoint.lm, checkpoint.info.config, prompt), None)
        positions.append(prompt.positions)
    joiners = [TextJoiner(checkpoint.tokenizer) for _ in people]
    progress = Progress("calls", max_frames)
    rows, yes = range(len(people)), torch.ones(len(people), dtype=torch.bool)
    for frame in range(max_frames):
        pcm = torch.from_numpy(np.stack([person.speak() for person in people]))
        at = [position + frame for position in positions]
        out = step.step(rows, pcm, ~yes, at)
        step.commit(rows, yes)
        for row, person in enumerate(people):
            text = joiners[row].push(int(out.text[row]))
            person.hear(text, out.pcm[row].numpy())
        if frame % SHOW_EVERY == 0:
            progress.show(frame, {"done": sum(p.done for p in people)})
        if all(person.done for person in people):
            return frame + 1
    return max_frames
