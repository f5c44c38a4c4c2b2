"""Faster forms of a step against the plain one: fixed addresses, int8 layers, agreeing slots."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from model.config import LMConfig
from model.graphs import EagerStep, PackedStep, StaticStep
from model.modes import prepare_fastest
from model.modules import adopt, meta_lm
from model.prefill import prefill
from model.quantize import Int8Linear, quantise
from model.random_weights import random_weights
from model.selftest import rows_agree, rows_for, settle_threads
from model.step import FrameStep
from model.stepper import StepInput
from tests.unit.model.engine.real import CONFIG, Track, read_prompt, torch_threads, weights

pytestmark = pytest.mark.unit
CPU, SLOTS, STEPS = torch.device("cpu"), 4, 6


def run(make: type[EagerStep] | type[StaticStep]) -> list[np.ndarray]:
    """Packed rows of a few steps of two calls."""
    lm, mimi = weights()
    step = FrameStep(lm, mimi, CONFIG, SLOTS)
    tracks = [Track.draw(seed, STEPS) for seed in (1, 2)]
    for slot, track in enumerate(tracks):
        step.admit(slot, prefill(lm, CONFIG, read_prompt(track.spec)), None)
    form: PackedStep = make(step, CPU)
    packed = []
    for index in range(STEPS):
        pcm = np.zeros((SLOTS, 1920), np.float32)
        pcm[:2] = [track.pcm[index] for track in tracks]
        stepped = np.arange(SLOTS) < 2
        positions = [origin + index for origin in step.origins]
        frames = StepInput(pcm, stepped, np.zeros(SLOTS, np.bool_), positions)
        packed.append(form(range(SLOTS), frames)[:2].copy())
    return packed


# contract: I5
@torch.inference_mode()
def test_the_step_from_fixed_addresses_says_what_the_eager_one_says() -> None:
    for eager, static in zip(run(EagerStep), run(StaticStep), strict=True):
        assert np.array_equal(eager, static)


def test_int8_rows_are_within_half_a_level_and_apart_from_each_other() -> None:
    weight = torch.randn(24, 16, generator=torch.Generator().manual_seed(1))
    levels, scale = quantise(weight)
    assert levels.dtype == torch.int8
    error = (levels * scale[:, None] - weight).abs()
    assert bool((error <= scale[:, None] / 2 + 1e-6).all())
    product, x = Int8Linear(weight), torch.randn(8, 16)
    alone = product(x[3:4].expand(8, -1).contiguous())[3]
    assert torch.equal(product(x)[3], alone), "neighbours do not matter"
    assert torch.allclose(product(x), x @ product.weight.T, atol=1e-5)


# Gate C
def test_int8_layers_are_another_model_of_nearly_the_same_output() -> None:
    drawn = random_weights(CONFIG, 7).lm
    shape: LMConfig = dataclasses.replace(CONFIG.lm)
    lm, _ = weights()
    other = adopt(meta_lm(shape), {name: tensor.clone() for name, tensor in drawn.items()})
    _, name = prepare_fastest(other, SLOTS, quantise="int8")
    prompt = read_prompt(Track.draw(1, 1).spec)
    exact, close = prefill(lm, CONFIG, prompt).hidden, prefill(other, CONFIG, prompt).hidden
    distance = float((exact - close).norm() / exact.norm())
    print(f"Gate C: {name}, hidden differs by {distance:.2%}")
    assert 0 < distance < 0.2


# contract: I2
def test_slots_agree_and_the_check_leaves_them_clean() -> None:
    lm, mimi = weights()
    step = FrameStep(lm, mimi, CONFIG, SLOTS)
    with torch_threads(1):
        settle_threads(step)
        assert rows_agree(step) and torch.get_num_threads() == 1
        assert rows_for(3, CPU) == 3
    assert not any(bool(t.any()) for s in range(SLOTS) for t in step.state_tensors(s).values())
    with torch_threads(2):
        assert [rows_for(n, CPU) for n in (1, 2, 3, 5, 8)] == [1, 2, 4, 8, 8]
