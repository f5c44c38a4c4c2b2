"""Norm, rope, gate and window, each against its definition."""

from __future__ import annotations

import math

import pytest
import torch

from model.layers import (
    apply_rope,
    attend_one,
    merge_heads,
    rms_norm,
    rope_table,
    silu_gate,
    split_heads,
    window_mask,
    window_size,
)

pytestmark = pytest.mark.unit


def test_rms_norm_has_unit_mean_square_and_scales_by_alpha() -> None:
    x, alpha = torch.randn(3, 64), torch.rand(64)
    expected = x / x.square().mean(-1, keepdim=True).sqrt() * alpha
    assert torch.allclose(rms_norm(x, alpha), expected, atol=1e-6)


def test_rms_norm_computes_in_fp32_and_returns_the_models_dtype() -> None:
    x, alpha = torch.randn(3, 64).bfloat16() * 1e-3, torch.rand(64).bfloat16()
    wide = rms_norm(x.float(), alpha.float())
    assert rms_norm(x, alpha).dtype is torch.bfloat16
    assert torch.equal(rms_norm(x, alpha), wide.bfloat16())


def test_rope_turns_interleaved_pairs_by_the_position() -> None:
    x = torch.randn(8)
    cos, sin = rope_table(torch.tensor(7), 8, 10_000.0)
    turned = apply_rope(x, cos, sin)
    for pair in range(4):
        angle = 7 * 10_000.0 ** (-2 * pair / 8)
        real, imaginary = x[2 * pair], x[2 * pair + 1]
        expected = real * math.cos(angle) - imaginary * math.sin(angle)
        assert turned[2 * pair] == pytest.approx(float(expected), abs=1e-5)


def test_rope_makes_scores_depend_on_the_distance_alone() -> None:
    q, k = torch.randn(64), torch.randn(64)
    scores = []
    for start in (0, 3000, 45_000):
        query = apply_rope(q, *rope_table(torch.tensor(start + 5), 64, 10_000.0))
        key = apply_rope(k, *rope_table(torch.tensor(start), 64, 10_000.0))
        scores.append(float(query @ key))
    assert scores[1:] == pytest.approx([scores[0]] * 2, abs=0.05)


def test_heads_split_into_thirds_first() -> None:
    projected = torch.arange(24.0).view(1, 1, 24)
    q, k, v = split_heads(projected, 2)
    assert q[0, :, 0].tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert merge_heads(k)[0, 0].tolist() == list(range(8, 16))
    assert merge_heads(v)[0, 0].tolist() == list(range(16, 24))


def test_first_half_gates_the_second() -> None:
    x = torch.tensor([0.0, 20.0, 3.0, 5.0])
    assert silu_gate(x).tolist() == pytest.approx([0.0, 100.0])


@pytest.mark.parametrize(("rule", "expected"), [("moshi", 5), ("personaplex", 4)])
def test_window_rule(rule: str, expected: int) -> None:
    assert window_size(5, rule) == expected


def test_window_mask_hides_the_future_the_old_and_the_unwritten() -> None:
    mask = window_mask(torch.tensor([5]), torch.tensor([-1, 2, 3, 5, 6]), 3)
    assert mask.tolist() == [[False, False, True, True, False]]


@pytest.mark.parametrize("threads", [1, 2])
def test_one_query_attends_alike_in_any_row_and_any_cut(threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        q, k, v = torch.randn(1, 8, 1, 32), torch.randn(1, 8, 128, 32), torch.randn(1, 8, 128, 32)
        mask = torch.zeros(1, 1, 1, 128)
        mask[..., 50:] = -torch.inf
        rows = [x.expand(8, *x.shape[1:]).contiguous() for x in (q, k, v)]
        whole = attend_one(*rows, mask)
        cut = attend_one(rows[0], rows[1][:, :, :64], rows[2][:, :, :64], mask[..., :64])
    finally:
        torch.set_num_threads(before)
    assert torch.equal(whole, whole[:1].expand_as(whole))
    assert torch.equal(whole, cut)
    expected = torch.softmax(q @ k.mT * 32**-0.5 + mask, -1) @ v
    assert torch.allclose(whole[:1], expected, atol=1e-6)
