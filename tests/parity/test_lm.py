"""The language model against the `moshi` package: hidden states and tokens, greedy and sampled."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

import model.fast
from model.config import ModelConfig
from model.core import Sampling
from model.fast import FastMaker
from model.lm import LanguageModel
from model.prefill import prefill
from model.prompt import Prompt, build_prompt_from_codes
from model.random_weights import random_weights
from model.sampling import Noise, SamplerRows
from tests.conftest import SEED
from tests.parity.lm_calls import (
    admit,
    agreement,
    make_slots,
    random_codes,
    random_words,
    run_live,
    run_single,
    step_by_step,
    tiny_config,
    tiny_lm,
    worst,
)
from tests.parity.lm_oracle import (
    Sampler,
    Spoken,
    first_steps,
    kyutai_run,
    late_run,
    moshi_model,
    prompt_frames,
)

pytestmark = pytest.mark.parity

CONTEXT = 100
"""400 frames after the prefill go round the ring four times."""
LIVE = 400
BOUND = 1e-4
VOICES, WORDS = (9, 5, 13, 7), (8, 3, 12, 0)


@dataclass(frozen=True)
class World:
    """Four calls with different voices and personas, and what the reference says in each."""

    config: ModelConfig
    weights: dict[str, Tensor]
    lm: LanguageModel
    frames: list[Tensor]
    prompts: list[Prompt]
    users: list[Tensor]
    reference: list[Spoken]


@pytest.fixture(scope="module")
def weights() -> dict[str, Tensor]:
    """Of a 16-step file."""
    return random_weights(tiny_config(CONTEXT), SEED).lm


@pytest.fixture(scope="module")
def world(weights: dict[str, Tensor]) -> World:
    config = tiny_config(CONTEXT, dep_q=8)
    kept = first_steps(weights, tiny_config(CONTEXT).lm, 8)
    voices = [random_codes(count, seed) for seed, count in enumerate(VOICES)]
    personas = [random_words(count, seed) for seed, count in enumerate(WORDS)]
    pairs = list(zip(voices, personas, strict=True))
    frames = [prompt_frames(voice, persona, config) for voice, persona in pairs]
    users = [random_codes(LIVE, 10 + seed) for seed in range(len(voices))]
    reference = kyutai_run(moshi_model(kept, config.lm), frames, users, LIVE)
    prompts = [build_prompt_from_codes(voice, persona, config) for voice, persona in pairs]
    return World(config, kept, tiny_lm(kept, config), frames, prompts, users, reference)


def check(ours: Spoken, theirs: Spoken, what: str) -> None:
    equal, frames = agreement(ours, theirs)
    print(f"{what}: {equal} of {frames} frames equal, hidden within {worst(ours, theirs):.1e}")
    assert equal == frames
    assert worst(ours, theirs) <= BOUND


def test_eight_step_file_over_three_rounds_of_the_ring(world: World) -> None:
    ours = run_single(world.lm, world.config, world.prompts[0], world.users[0], LIVE)
    check(ours, world.reference[0], "8-step file, one call")
    assert len(ours.text.unique()) > 20, "the text must vary, or equality means little"


def test_batch_of_four_prompts_against_the_reference(world: World) -> None:
    slots = make_slots(world.lm, world.config, 4)
    for slot, prompt in enumerate(world.prompts):
        admit(slots, slot, prefill(world.lm, world.config, prompt))
    batch = run_live(slots, world.users, LIVE, joins=[0, 3, 0, 11])
    for slot, ours in enumerate(batch):
        check(ours, world.reference[slot], f"batch of 4, call {slot}")


@pytest.mark.parametrize("live", [60, pytest.param(LIVE, marks=pytest.mark.full)])
def test_batch_of_four_against_four_single_runs(world: World, live: int) -> None:
    slots = make_slots(world.lm, world.config, 4)
    for slot, prompt in enumerate(world.prompts):
        admit(slots, slot, prefill(world.lm, world.config, prompt))
    batch = run_live(slots, world.users, live, joins=[0, 3, 0, 11])
    for slot, prompt in enumerate(world.prompts):
        alone = run_single(world.lm, world.config, prompt, world.users[slot], live)
        check(batch[slot], alone, f"call {slot}, in the batch and alone")


@pytest.mark.parametrize("live", [60, pytest.param(LIVE, marks=pytest.mark.full)])
def test_packed_form_against_the_reference(
    world: World, live: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model.fast, "PACK_FROM", 1)
    slots = make_slots(world.lm, world.config, 4, maker=FastMaker(4))
    for slot, prompt in enumerate(world.prompts):
        admit(slots, slot, prefill(world.lm, world.config, prompt))
    for slot, ours in enumerate(run_live(slots, world.users, live, joins=[0] * 4)):
        check(ours, head(world.reference[slot], live), f"packed, call {slot}")


def test_personaplex_window_of_c_is_moshi_window_of_c_minus_1(world: World) -> None:
    lm = replace(world.config.lm, context=CONTEXT + 1)
    config = replace(world.config, lm=lm, attention_window="personaplex")
    ours = run_single(
        tiny_lm(world.weights, config), config, world.prompts[0], world.users[0], LIVE
    )
    check(ours, world.reference[0], f"personaplex {CONTEXT + 1} against moshi {CONTEXT}")


def test_sixteen_steps_say_what_eight_say(weights: dict[str, Tensor], world: World) -> None:
    config = tiny_config(CONTEXT)
    lm = tiny_lm(weights, config)
    ours = run_single(lm, config, world.prompts[0], world.users[0], 60, steps=16)
    check(ours, head(world.reference[0], 60), "16-step file, greedy")


@pytest.mark.parametrize("live", [60, pytest.param(LIVE, marks=pytest.mark.full)])
def test_greedy_against_nvidias_schedule(
    weights: dict[str, Tensor], world: World, live: int
) -> None:
    user = torch.cat([world.users[0], random_codes(1, 99)], dim=1)
    theirs = late_run(
        moshi_model(weights, tiny_config(CONTEXT).lm), world.frames[0], user, live + 1, None
    )
    check(head(world.reference[0], live), theirs, "both schedules of the reference")


@pytest.mark.parametrize("live", [120, pytest.param(LIVE, marks=pytest.mark.full)])
def test_sampling_with_the_references_noise(
    weights: dict[str, Tensor], world: World, live: int, monkeypatch: pytest.MonkeyPatch
) -> None:  # contract: I4
    config = tiny_config(CONTEXT)
    user = torch.cat([world.users[1], random_codes(1, 99)], dim=1)
    reference = moshi_model(weights, config.lm)
    torch.manual_seed(SEED)
    theirs = late_run(reference, world.frames[1], user, live + 1, Sampler())
    use_reference_noise(monkeypatch, world.prompts[1].positions + live + 1)
    ours = run_single(
        tiny_lm(weights, config),
        config,
        world.prompts[1],
        user,
        live,
        steps=16,
        sampling=Sampling(seed=0),
    )
    check(ours, theirs, "16 steps, sampled")
    assert agreement(ours, head(world.reference[1], live))[0] < live // 2, "sampling did nothing"


@pytest.mark.parametrize("live", [120, pytest.param(LIVE, marks=pytest.mark.full)])
def test_bf16_over_the_edge_of_the_ring(
    weights: dict[str, Tensor], world: World, live: int
) -> None:
    """Bit for bit, where sums are as long as the reference's: part of a vector has other lanes.

    So the context is whole vectors, as 3000 is, and the file has the released one's sixteen steps,
    over which the reference attends. The prompt goes in step by step: one pass over it rounds its
    products in another order.
    """
    config = tiny_config(96)
    narrow = {name: tensor.bfloat16() for name, tensor in weights.items()}
    user = torch.cat([world.users[0], random_codes(1, 99)], dim=1)
    reference = moshi_model(narrow, config.lm, torch.bfloat16)
    theirs = late_run(reference, world.frames[0], user, live + 1, None)
    slots = make_slots(tiny_lm(narrow, config), config, 1)
    admit(slots, 0, step_by_step(slots, config, world.prompts[0]))
    ours = run_live(slots, [user], live, [0])[0]
    check(ours, theirs, "bf16")


def head(spoken: Spoken, live: int) -> Spoken:
    return Spoken(spoken.text[:live], spoken.codes[:live], spoken.hidden[:live])


def use_reference_noise(monkeypatch: pytest.MonkeyPatch, positions: int) -> None:
    """Give every call the draws of torch's generator, in the reference's order of drawing."""
    generator = torch.Generator().manual_seed(SEED)

    def draw(lanes: int) -> Tensor:
        return torch.empty(1, lanes).exponential_(1, generator=generator)

    draws = [(draw(25), [draw(250) for _ in range(16)]) for _ in range(positions)]

    def noise(self: SamplerRows, position: Tensor, steps: int) -> Noise:
        text, audio = draws[int(position) - 1]
        return Noise(text, torch.stack(audio[:steps], dim=1))

    monkeypatch.setattr(SamplerRows, "noise", noise)
