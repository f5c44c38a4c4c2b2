"""Mimi against `moshi`: codes equal, PCM within 1e-5, past the window edge, row by row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch
from moshi.models import MimiModel
from torch import Tensor

from model.config import AttentionWindow, MimiConfig
from model.mimi import Mimi
from tests.parity.moshi_oracle import moshi_mimi, released_weights, reset_rows
from tests.unit.model.mimi.codecs import SMALL, Stepper, noise_frames, random_mimi, with_context

pytestmark = pytest.mark.parity

CONTEXT = 250
"""The released one: 125 frames of two positions."""
SHORT = 20
"""Ten frames, which are soon behind."""
FRAMES = {CONTEXT: 200, SHORT: 60}
TOLERANCE = 1e-5


@pytest.fixture(autouse=True)
def _no_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


@dataclass
class Agreement:
    """How far two codecs fed the same sound and the same codes are apart."""

    wrong_codes: int = 0
    pcm: float = 0.0
    peak: float = 0.0

    def add(self, ours: tuple[Tensor, Tensor], theirs: tuple[Tensor, Tensor]) -> None:
        self.wrong_codes += int((ours[0] != theirs[0]).sum())
        if ours[1].numel():
            self.pcm = max(self.pcm, float((ours[1] - theirs[1]).abs().max()))
            self.peak = max(self.peak, float(theirs[1].abs().max()))

    def check(self, what: str) -> None:
        print(
            f"{what}: {self.wrong_codes} codes differ, pcm within {self.pcm:.1e} of {self.peak:.1f}"
        )
        assert self.wrong_codes == 0
        assert self.pcm < TOLERANCE


def _reference_step(reference: MimiModel, pcm: Tensor) -> tuple[Tensor, Tensor]:
    codes = reference.encode(pcm)
    return codes[..., 0], reference.decode(codes)[:, 0]


@pytest.mark.parametrize(
    ("rule", "context", "equivalent", "rows"),
    [
        ("moshi", CONTEXT, CONTEXT, 1),
        ("moshi", CONTEXT, CONTEXT, 4),
        ("personaplex", CONTEXT, CONTEXT - 1, 4),
        ("moshi", SHORT, SHORT, 4),
        ("personaplex", SHORT, SHORT - 1, 4),
    ],
)
def test_streamed_frames(rule: AttentionWindow, context: int, equivalent: int, rows: int) -> None:
    """Rows join one after the other, by a reset; one pauses now and then."""
    ours = random_mimi(with_context(SMALL, context), rule, seed=1)
    reference = moshi_mimi(with_context(SMALL, equivalent), ours)
    stepper, agreement = Stepper.of(ours, rows), Agreement()
    joins = {7 * row + row % 2: row for row in range(1, rows)}
    generator = torch.Generator().manual_seed(3)
    with reference.streaming(rows):
        for index, pcm in enumerate(noise_frames(FRAMES[context], rows, seed=2)):
            if index in joins:
                stepper.reset(joins[index])
                reset_rows(reference, [joins[index]], rows)
            stepped = torch.rand(rows, generator=generator) < 0.95
            stepped[0] = True
            reference.set_exec_mask(stepped)
            theirs = _reference_step(reference, pcm)
            mine = stepper.step(pcm, stepped)
            agreement.add(
                (mine[0][stepped], mine[1][stepped]), (theirs[0][stepped], theirs[1][stepped])
            )
    agreement.check(f"{rule}, context {context}, {rows} rows")


def _first_difference(ours: Tensor, theirs: Tensor) -> int:
    apart = (ours - theirs).abs().flatten(1).amax(1) > TOLERANCE
    return int(apart.int().argmax()) if bool(apart.any()) else len(apart)


def test_the_edge_of_the_released_window() -> None:
    """The two rules part at frame 124, streaming and whole sequences at frame 125."""
    config = with_context(SMALL, CONTEXT)
    ours = random_mimi(config, "personaplex", seed=1)
    reference = moshi_mimi(config, ours)
    frames = noise_frames(130, 1, seed=2)
    codes = reference.encode(frames.permute(1, 2, 0, 3).flatten(2))
    offline = reference.decode(codes).view(130, -1)
    stepper = Stepper.of(ours, rows=1)
    mine = []
    for index in range(130):
        state, carry = stepper.state, stepper.carry
        mine.append(stepper.codec.decode(codes[..., index], state, carry, stepper.codec.capacity))
        stepper.commit()
    with reference.streaming(1):
        streamed = torch.cat([reference.decode(codes[..., i : i + 1]) for i in range(130)])
    assert _first_difference(torch.cat(mine), streamed[:, 0]) == 124
    assert _first_difference(streamed[:, 0], offline) == 125


def test_a_reset_primes_its_row_again_and_no_other() -> None:
    ours = random_mimi(SMALL, "moshi", seed=1)
    reference = moshi_mimi(SMALL, ours)
    frames = noise_frames(24, 2, seed=2)
    undisturbed = Stepper.of(ours, rows=2).run(frames)
    stepper, agreement = Stepper.of(ours, rows=2), Agreement()
    with reference.streaming(2):
        for index, pcm in enumerate(frames):
            if index == 13:
                stepper.reset(1)
                reset_rows(reference, [1], 2)
            mine = stepper.step(pcm)
            agreement.add(mine, _reference_step(reference, pcm))
            assert torch.equal(mine[1][0], undisturbed[1][index, 0])
    agreement.check("one row reset at frame 13")


def test_whole_sequences() -> None:
    ours = random_mimi(with_context(SMALL, CONTEXT), "moshi", seed=1)
    reference = moshi_mimi(with_context(SMALL, CONTEXT), ours)
    pcm = noise_frames(20, 2, seed=2).permute(1, 2, 0, 3).flatten(2)
    codes = ours.quantize_latent(ours.encode_latent_sequence(pcm)).codes
    sound = ours.decode_latent_sequence(ours.decode_codes(codes))
    expected = reference.encode(pcm)
    agreement = Agreement()
    agreement.add((codes, sound), (expected, reference.decode(expected)))
    agreement.check("whole sequences")


def test_full_size_with_the_reference_s_own_weights() -> None:
    config = MimiConfig()
    reference = moshi_mimi(config)
    for name, buffer in reference.named_buffers():
        if name.endswith("embedding_sum"):
            buffer.normal_(std=0.01)
    ours = Mimi(config, "moshi").eval()
    ours.load_state_dict(released_weights(reference))
    stepper, agreement = Stepper.of(ours, rows=2), Agreement()
    with reference.streaming(2):
        for pcm in noise_frames(4, 2, seed=2):
            agreement.add(stepper.step(pcm), _reference_step(reference, pcm))
    agreement.check("full size, 4 frames, 2 rows")
