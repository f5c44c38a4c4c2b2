"""The packed CPU form: close to the plain one, and no row of it knows the others."""

from __future__ import annotations

import pytest
import torch

from model.fast import FastMaker, can_pack
from model.prepared import PlainMaker

pytestmark = pytest.mark.unit

ROWS = 5
SHAPES = [(96, 64), (64, 176), (2048, 64), (256, 704)]
"""The last two are large enough to be packed."""


@pytest.fixture(autouse=True)
def _packing() -> None:
    if not can_pack(torch.float32, ROWS):
        pytest.fail(
            "this build of torch cannot pack: the CPU path would fall back to the plain one"
        )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rows", [1, ROWS])
def test_equals_the_plain_form(shape: tuple[int, int], rows: int) -> None:
    weight, alpha, x = torch.randn(shape), torch.rand(shape[1]), torch.randn(rows, shape[1])
    fast, plain = FastMaker(ROWS), PlainMaker()
    assert torch.allclose(fast.matrix(weight)(x), plain.matrix(weight)(x), atol=1e-4)
    ours, theirs = fast.normed(alpha, weight)(x), plain.normed(alpha, weight)(x)
    assert torch.allclose(ours, theirs, atol=1e-4)


def test_fan_equals_the_plain_form() -> None:
    weights, x = [torch.randn(32, 64) for _ in range(3)], torch.randn(ROWS, 64)
    ours, theirs = FastMaker(ROWS).fan(weights)(x), PlainMaker().fan(weights)(x)
    for one, other in zip(ours, theirs, strict=True):
        assert torch.allclose(one, other, atol=1e-4)


def test_norm_keeps_its_epsilon() -> None:
    """A row far below the epsilon is not blown up to unit length."""
    x = torch.full((ROWS, 64), 1e-6)
    ours = FastMaker(ROWS).normed(torch.ones(64), torch.eye(64))(x)
    assert torch.allclose(ours, PlainMaker().normed(torch.ones(64), torch.eye(64))(x), atol=1e-6)
    assert float(ours.max()) < 0.1


@pytest.mark.parametrize("shape", SHAPES)
def test_a_row_does_not_depend_on_place_or_neighbours(shape: tuple[int, int]) -> None:
    """contract: I4, Gate A: bit-equal in every place of a fixed number of rows."""
    normed = FastMaker(ROWS).normed(torch.rand(shape[1]), torch.randn(shape))
    row = torch.randn(shape[1])
    results = []
    for place in range(ROWS):
        x = torch.randn(ROWS, shape[1])
        x[place] = row
        results.append(normed(x)[place])
    assert all(torch.equal(result, results[0]) for result in results)
