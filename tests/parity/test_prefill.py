"""Prefill: one causal pass against position after position, and the two ways to give a voice."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from model.config import ModelConfig
from model.lm import LanguageModel
from model.prefill import CHUNK, Prefill, prefill
from model.prompt import Prompt, build_prompt, build_prompt_from_codes
from model.random_weights import random_weights
from tests.conftest import SEED
from tests.parity.lm_calls import (
    admit,
    agreement,
    make_slots,
    random_codes,
    random_words,
    run_live,
    run_single,
    saved_voice,
    step_by_step,
    tiny_config,
    tiny_lm,
    worst,
)
from tests.parity.lm_oracle import (
    Spoken,
    first_steps,
    kyutai_run,
    moshi_model,
    prompt_frames,
)

pytestmark = pytest.mark.parity

CONTEXT = 170
LIVE = 200
BOUND = 1e-4
FRAMES, WORDS = 41, 30
"""83 positions: two chunks, and no multiple of anything."""


@dataclass(frozen=True)
class World:
    config: ModelConfig
    weights: dict[str, Tensor]
    lm: LanguageModel
    voice: Tensor
    persona: list[int]
    user: Tensor

    @property
    def prompt(self) -> Prompt:
        return build_prompt_from_codes(self.voice, self.persona, self.config)


@pytest.fixture(scope="module")
def world() -> World:
    config = tiny_config(CONTEXT, dep_q=8)
    full = random_weights(tiny_config(CONTEXT), SEED).lm
    weights = first_steps(full, tiny_config(CONTEXT).lm, 8)
    lm = tiny_lm(weights, config)
    voice, persona = random_codes(FRAMES, 1), random_words(WORDS, 2)
    return World(config, weights, lm, voice, persona, random_codes(LIVE, 3))


def check(ours: Spoken, theirs: Spoken, what: str) -> None:
    equal, frames = agreement(ours, theirs)
    print(f"{what}: {equal} of {frames} frames equal, hidden within {worst(ours, theirs):.1e}")
    assert equal == frames
    assert worst(ours, theirs) <= BOUND


def test_batched_equals_step_by_step(world: World) -> None:  # contract: I3
    batched = prefill(world.lm, world.config, world.prompt)
    slots = make_slots(world.lm, world.config, 1)
    stepped = step_by_step(slots, world.config, world.prompt)
    for name in ("k", "v", "hidden"):
        error = float((getattr(batched, name) - getattr(stepped, name)).abs().max())
        print(f"prefill of {batched.positions} positions, {name}: within {error:.1e}")
        assert error <= BOUND
    said = []
    for prefix in (batched, stepped):
        slots = make_slots(world.lm, world.config, 1)
        admit(slots, 0, prefix)
        column = slots.state.tokens[0, :2].tolist()
        said.append((column, run_live(slots, [world.user], LIVE, [0])[0]))
    assert said[0][0] == said[1][0], "text and first agent codebook decided by the last position"
    check(said[0][1], said[1][1], "after batched and after stepped prefill")


def test_boundaries_of_chunks_depend_on_the_prompt_alone(world: World) -> None:
    prompt = world.prompt
    lengths: list[int] = []
    work = Prefill(world.lm, world.config, prompt)
    while work.advance() is None:
        lengths.append(work.done)
    assert [*lengths, work.done] == [CHUNK, prompt.positions]
    again = prefill(world.lm, world.config, prompt)
    assert torch.equal(work.k, again.k)


@pytest.mark.parametrize("live", [60, pytest.param(LIVE, marks=pytest.mark.full)])
def test_pt_and_wav_path_say_the_same_as_the_reference(world: World, live: int) -> None:
    from_codes = run_single(world.lm, world.config, world.prompt, world.user, live)
    reference = moshi_model(world.weights, world.config.lm)
    voice = saved_voice(reference, world.voice, world.config)
    prompt = build_prompt(voice, world.persona, world.config)
    assert prompt.positions == world.prompt.positions == FRAMES + 12 + WORDS
    from_file = run_single(world.lm, world.config, prompt, world.user, live)
    check(from_file, from_codes, ".pt path against WAV path")
    frames = prompt_frames(world.voice, world.persona, world.config)
    theirs = kyutai_run(reference, [frames], [world.user], live)[0]
    check(from_file, theirs, ".pt path against the reference")


def test_emitted_frame_at_the_end_of_the_prompt_has_the_silent_tail(world: World) -> None:
    """The delayed agent codebooks of the last forced frame are silence, one position past it."""
    silence, sine = world.config.silence_codes, world.config.sine_codes
    tail = world.prompt.tokens[:, -1].tolist()
    assert tail[2:9] == list(silence[1:])
    assert tail[10:17] == list(sine[1:])
