"""Streaming: the same as the whole sequence, repeatable until committed, blind to idle cells."""

from __future__ import annotations

import pytest
import torch

from model.config import AttentionWindow
from tests.unit.model.mimi.codecs import SMALL, Stepper, noise_frames, random_mimi, with_context

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("rule", ["moshi", "personaplex"])
def test_streaming_equals_the_sequence_past_the_window(rule: AttentionWindow) -> None:
    mimi = random_mimi(SMALL, rule, seed=1)
    frames = noise_frames(24, 2, seed=2)
    codes, pcm = Stepper.of(mimi, rows=2).run(frames)
    with torch.no_grad():
        whole = mimi.encode_latent_sequence(frames.permute(1, 2, 0, 3).flatten(2))
        expected = mimi.quantize_latent(whole).codes
        sound = mimi.decode_latent_sequence(mimi.decode_codes(expected))
    assert torch.equal(codes.permute(1, 2, 0), expected)
    difference = (pcm.transpose(0, 1).flatten(1) - sound[:, 0]).abs().max().item()
    print(f"streaming against sequence, {rule}: pcm within {difference:.1e}")
    assert difference < 1e-5


def test_a_call_that_is_not_committed_leaves_nothing() -> None:
    # contract: I5
    mimi = random_mimi(SMALL, "moshi", seed=1)
    frames = noise_frames(20, 2, seed=2)
    plain = Stepper.of(mimi, rows=2).run(frames)
    retried = Stepper.of(mimi, rows=2)
    strays = noise_frames(20, 2, seed=3)
    for index, frame in enumerate(frames):
        retried.stage(strays[index])
        codes, pcm = retried.step(frame)
        assert torch.equal(codes, plain[0][index])
        assert torch.equal(pcm, plain[1][index])


def test_reading_fewer_cells_gives_the_same_bits() -> None:
    mimi = random_mimi(with_context(SMALL, 100), "moshi", seed=1)
    whole, sliced = Stepper.of(mimi, rows=2), Stepper.of(mimi, rows=2)
    lengths = set()
    for index, frame in enumerate(noise_frames(40, 2, seed=2)):
        cells = sliced.codec.cells(index)
        lengths.add(cells)
        some, every = sliced.stage(frame, cells), whole.stage(frame)
        sliced.commit()
        whole.commit()
        assert torch.equal(some[0], every[0])
        assert torch.equal(some[1], every[1])
    assert lengths == {64, 128}


def test_reset_brings_one_slot_back_to_the_start() -> None:
    mimi = random_mimi(SMALL, "moshi", seed=1)
    frames = noise_frames(20, 3, seed=2)
    undisturbed = Stepper.of(mimi, rows=3).run(frames)
    fresh = Stepper.of(mimi, rows=3).run(frames[8:])
    stepper = Stepper.of(mimi, rows=3)
    stepper.run(frames[:8])
    stepper.reset(1)
    codes, pcm = stepper.run(frames[8:])
    for others in (0, 2):
        assert torch.equal(pcm[:, others], undisturbed[1][8:, others])
        assert torch.equal(codes[:, others], undisturbed[0][8:, others])
    assert torch.equal(pcm[:, 1], fresh[1][:, 1])
    assert torch.equal(codes[:, 1], fresh[0][:, 1])


def test_only_the_first_frame_repeats_its_first_column() -> None:
    mimi = random_mimi(SMALL, "moshi", seed=1)
    frames = noise_frames(2, 2, seed=2)
    stepper = Stepper.of(mimi, rows=2)
    stepper.state.frames[1] = 1
    latent = stepper.codec.encode_latent(frames[0], stepper.state, stepper.carry, 64)
    alike = Stepper.of(mimi, rows=2)
    primed = alike.codec.encode_latent(frames[0], alike.state, alike.carry, 64)
    assert torch.equal(latent[0], primed[0])
    assert not torch.allclose(latent[1], primed[1], atol=1e-2)


def test_codes_out_of_range_decode_to_something_finite() -> None:
    stepper = Stepper.of(random_mimi(SMALL, "moshi", seed=1), rows=2)
    codes = torch.tensor([[64] * 8, [-2] * 8])
    pcm = stepper.codec.decode(codes, stepper.state, stepper.carry, 64)
    assert pcm.isfinite().all()
