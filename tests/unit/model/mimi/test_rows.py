"""Rows do not hear each other: bit for bit, in any slot, beside idle, poisoned or broken ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from model.config import CodecTransformerConfig, MimiConfig
from model.mimi import Mimi
from tests.unit.model.mimi.codecs import SMALL, Stepper, noise_frames, random_mimi

pytestmark = pytest.mark.unit

FULL_WIDTH = MimiConfig(transformer=replace(CodecTransformerConfig(), num_layers=1))
"""Every matrix of the released size, one layer of each kind."""
# Row counts are 1, 2 or a multiple of 4: with several threads the BLAS library's bits depend on a
# row's place at others. The engine pads its slots accordingly.
NAN = float("nan")


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def small() -> Mimi:
    return random_mimi(SMALL, "moshi", seed=1)


@pytest.fixture(scope="module")
def full_width() -> Mimi:
    return random_mimi(FULL_WIDTH, "personaplex", seed=1)


# contract: I6
def _check_slots_and_neighbours(mimi: Mimi, frames: int, rows: int) -> None:
    """One call alone in slot 0 (others: zeros), then last among strangers."""
    call = noise_frames(frames, 1, seed=2)
    alone = torch.cat((call, torch.zeros(frames, rows - 1, *call.shape[2:])), 1)
    crowd = torch.cat((noise_frames(frames, rows - 1, seed=3), call), 1)
    codes, pcm = Stepper.of(mimi, rows).run(alone)
    crowd_codes, crowd_pcm = Stepper.of(mimi, rows).run(crowd)
    assert torch.equal(codes[:, 0], crowd_codes[:, -1])
    assert torch.equal(pcm[:, 0], crowd_pcm[:, -1])


def test_a_row_is_the_same_in_any_slot_with_any_neighbours(small: Mimi, threads: int) -> None:
    for rows in (2, 8):
        _check_slots_and_neighbours(small, frames=12, rows=rows)


def test_the_same_at_full_width(full_width: Mimi, threads: int) -> None:
    _check_slots_and_neighbours(full_width, frames=2, rows=4)


def test_a_row_joining_late_is_the_same(small: Mimi) -> None:
    call = noise_frames(20, 1, seed=2)
    crowd = noise_frames(35, 4, seed=3)
    first = Stepper.of(small, rows=4)
    codes, pcm = first.run(torch.cat((call, torch.zeros_like(crowd[:20, :3])), 1))
    late = Stepper.of(small, rows=4)
    late.run(crowd[:15])
    late.reset(2)
    joined = crowd[15:].clone()
    joined[:, 2] = call[:, 0]
    late_codes, late_pcm = late.run(joined)
    assert torch.equal(codes[:, 0], late_codes[:, 2])
    assert torch.equal(pcm[:, 0], late_pcm[:, 2])


def test_idle_rows_pause_and_go_on(small: Mimi) -> None:
    frames = noise_frames(20, 2, seed=2)
    steady = Stepper.of(small, rows=2).run(frames)
    stepper = Stepper.of(small, rows=2)
    strays = noise_frames(40, 1, seed=3)
    done = 0
    for tick, stray in enumerate(strays):
        live = tick % 3 > 0 and done < 20
        frame = torch.stack((frames[done, 0] if live else stray[0], stray[0]))
        codes, pcm = stepper.step(frame, torch.tensor([live, tick % 2 == 0]))
        if live:
            assert torch.equal(codes[0], steady[0][done, 0])
            assert torch.equal(pcm[0], steady[1][done, 0])
            done += 1
    assert done == 20


def test_poisoned_idle_rows_are_not_heard(small: Mimi) -> None:
    # contract: I6
    frames = noise_frames(15, 4, seed=2)
    clean = Stepper.of(small, rows=4).run(frames)
    stepper = Stepper.of(small, rows=4)
    stepper.carry.old[1] = NAN
    for ring in (stepper.state.encoder, stepper.state.decoder):
        ring.k[:, 1] = NAN
        ring.v[:, 1] = NAN
    stepper.state.frames[1] = 2**40
    frames[:, 1] = NAN
    codes, pcm = stepper.run(frames)
    for row in (0, 2, 3):
        assert torch.equal(codes[:, row], clean[0][:, row])
        assert torch.equal(pcm[:, row], clean[1][:, row])
    assert not pcm[:, 1].isfinite().any()


def test_a_row_that_heard_nan_fails_alone_and_its_slot_is_clean_after_reset(small: Mimi) -> None:
    # contract: I5
    frames = noise_frames(20, 4, seed=2)
    clean = Stepper.of(small, rows=4).run(frames)
    fresh = Stepper.of(small, rows=4).run(frames[12:])
    stepper = Stepper.of(small, rows=4)
    broken = frames[:12].clone()
    broken[11, 2, 0, 77] = NAN
    codes, pcm = stepper.run(broken)
    assert torch.equal(pcm[:, :2], clean[1][:12, :2])
    state, carry = stepper.state, stepper.carry
    latent = stepper.codec.encode_latent(frames[12], state, carry, stepper.codec.capacity)
    assert latent.isfinite().all(1).tolist() == [True, True, False, True]
    stepper.reset(2)
    codes, pcm = stepper.run(frames[12:])
    assert torch.equal(pcm[:, :2], clean[1][12:, :2])
    assert torch.equal(codes[:, 2], fresh[0][:, 2])
    assert torch.equal(pcm[:, 2], fresh[1][:, 2])


def test_one_row_narrowed_out_of_many_is_that_row_alone(small: Mimi) -> None:
    frames = noise_frames(15, 1, seed=2)
    alone = Stepper.of(small, rows=1).run(frames)
    many = Stepper.of(small, rows=4)
    before = many.carry.old.clone()
    codes, pcm = many.rows(2, 3).run(frames)
    assert torch.equal(codes, alone[0])
    assert torch.equal(pcm, alone[1])
    assert many.state.frames.tolist() == [0, 0, 15, 0]
    assert torch.equal(many.carry.old[[0, 1, 3]], before[[0, 1, 3]])
