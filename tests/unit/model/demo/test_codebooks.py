"""Codebooks follow what they are to match: all alike in the first, half the agent elsewhere."""

from __future__ import annotations

import pytest
import torch

from model.demo.codebooks import follow
from model.demo.shape import ATTENTION_WINDOW, BINS, MIMI
from model.mimi import Mimi, Quantized

pytestmark = pytest.mark.unit

ROWS, PLAYED, FRAMES = 6, 2, 5


def test_the_agent_is_half_of_every_acoustic_codebook() -> None:
    """All rows choose code 0; the agent's points are 1, everybody else's 0."""
    mimi = Mimi(MIMI, ATTENTION_WINDOW)
    size, levels = MIMI.quantizer.dimension, MIMI.quantizer.n_q
    points = torch.zeros(levels, ROWS, FRAMES, size)
    points[:, :PLAYED] = 1.0
    codes = torch.zeros(ROWS, levels, FRAMES, dtype=torch.int64)
    for codebook in mimi.quantizer.codebooks:
        codebook.cluster_usage.zero_()
        codebook.embedding_sum.zero_()
    generator = torch.Generator().manual_seed(1)
    quantized = Quantized(torch.zeros(0), codes, points, points)
    follow(mimi, quantized, PLAYED, generator, revive=False)
    shares = [
        float((codebook.embedding_sum[0] / codebook.cluster_usage[0]).mean())
        for codebook in mimi.quantizer.codebooks
    ]
    assert shares[0] == pytest.approx(PLAYED / ROWS)
    assert shares[1:] == pytest.approx([0.5] * (levels - 1))
    used = mimi.quantizer.codebooks[1].cluster_usage
    assert int((used > 0).sum()) == 1 and len(used) == BINS
