"""Tokens from logits, and noise that is a function of the call and nothing else."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from model.core import Sampling
from model.sampling import SamplerRows, exponential_noise, greedy, sample

pytestmark = pytest.mark.unit


def draws(seed: int, position: int, row: int = 1, lanes: int = 250) -> torch.Tensor:
    noise = exponential_noise(
        torch.tensor([seed]), torch.tensor([position]), torch.tensor([row]), lanes
    )
    return noise[0, 0]


def test_greedy_takes_the_first_of_equals() -> None:
    assert greedy(torch.tensor([[1.0, 3.0, 3.0]])).tolist() == [1]


def test_noise_is_exponential() -> None:
    noise = torch.cat([draws(7, position) for position in range(400)])
    assert float(noise.mean()) == pytest.approx(1.0, abs=0.02)
    assert float(noise.var()) == pytest.approx(1.0, abs=0.05)
    for level in (0.1, 0.5, 1.0, 3.0):
        below = float((noise < level).float().mean())
        assert below == pytest.approx(1 - math.exp(-level), abs=0.01)


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 2**63 - 1),
    position=st.integers(1, 10**6),
    row=st.integers(0, 16),
    other=st.sampled_from(["seed", "position", "row"]),
)
def test_noise_is_positive_and_changes_with_each_key(
    seed: int, position: int, row: int, other: str
) -> None:
    noise = draws(seed, position, row)
    assert bool((noise > 0).all()) and bool(noise.isfinite().all())
    changed = {
        "seed": draws(seed ^ (1 << 40), position, row),
        "position": draws(seed, position + 1, row),
        "row": draws(seed, position, (row + 1) % 17),
    }[other]
    assert not torch.equal(noise, changed)
    assert abs(float(torch.corrcoef(torch.stack([noise, changed]))[0, 1])) < 0.4


def test_noise_does_not_depend_on_slot_or_batch() -> None:  # contract: I4
    seeds, positions = torch.tensor([5, 9, 5]), torch.tensor([100, 3, 100])
    rows = torch.arange(1, 9)
    batch = exponential_noise(seeds, positions, rows, 250)
    assert torch.equal(batch[0], batch[2])
    alone = exponential_noise(seeds[1:2], positions[1:2], rows[3:4], 250)
    assert torch.equal(batch[1, 3], alone[0, 0])


def test_sample_follows_the_definition() -> None:
    logits, noise = torch.randn(4, 50), torch.rand(4, 10) + 0.1
    temperature, top_k = torch.tensor([0.7, 0.7, 1.3, 0.0]), torch.tensor([10, 3, 10, 10])
    tokens = sample(logits, temperature, top_k, noise)
    for row in range(3):
        p = torch.softmax(logits[row] / temperature[row], -1)
        best, order = p.topk(int(top_k[row]))
        assert tokens[row] == order[(best / noise[row, : len(best)]).argmax()]
    assert tokens[3] == logits[3].argmax()


def test_sampling_has_the_frequencies_of_the_softmax() -> None:
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0]).expand(4000, 4)
    positions = torch.arange(4000)
    noise = exponential_noise(torch.full((4000,), 3), positions, torch.tensor([1]), 4)[:, 0]
    tokens = sample(logits, torch.ones(4000), torch.full((4000,), 4), noise)
    found = torch.bincount(tokens, minlength=4) / 4000
    assert torch.allclose(found, torch.softmax(logits[0], -1), atol=0.03)


def test_a_vocabulary_smaller_than_the_lanes() -> None:
    tokens = sample(torch.randn(2, 5), torch.ones(2), torch.full((2,), 250), torch.ones(2, 250))
    assert bool((tokens < 5).all())


def test_slots_are_greedy_until_a_sampler_is_assigned() -> None:
    sampler = SamplerRows.allocate(2, torch.device("cpu"))
    sampler.assign(1, Sampling(seed=-5))
    logits = torch.randn(2, 300)
    position = torch.tensor([7, 7])
    choose = sampler.choosers(sampler.noise(position, 8))
    assert choose.text(logits)[0] == logits[0].argmax()
    audio = torch.stack([choose.audio(logits, step) for step in range(8)])
    assert len(audio[:, 0].unique()) == 1
    assert len(audio[:, 1].unique()) > 1
