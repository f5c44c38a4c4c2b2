"""Codebooks while they are trained: a k-means start, then moving averages.

Moves the plain buffers of `model.mimi.Codebook` from outside; knows nothing of losses.
"""

from __future__ import annotations

import torch
from torch import Tensor

from model.mimi import Codebook, Mimi, Quantized

from .together import adopt_first, average

DECAY = 0.99
DEAD = 0.05
"""A code used less than this share of the mean is given a new place."""


def kmeans(points: Tensor, bins: int, rounds: int, generator: torch.Generator) -> Tensor:
    """Centres `[bins, d]` of points `[N, d]`; an empty cluster moves to a random point."""
    centres = points[torch.randperm(len(points), generator=generator)[:bins]].clone()
    for _ in range(rounds):
        codes = torch.cdist(points, centres).argmin(1)
        counts = torch.bincount(codes, minlength=bins)
        sums = torch.zeros_like(centres).index_add_(0, codes, points)
        empty = counts == 0
        centres = sums / counts.clamp(min=1)[:, None]
        spare = torch.randint(len(points), (int(empty.sum()),), generator=generator)
        centres[empty] = points[spare]
    return centres


@torch.no_grad()
def start_codebooks(mimi: Mimi, latents: Tensor, generator: torch.Generator) -> None:
    """Fit every codebook in use to `latents`, `[N, D]`, level by level."""
    quantizer = mimi.quantizer
    first = quantizer.rvq_first.input_proj(latents[..., None])[..., 0]
    _fit(quantizer.codebooks[0], first, generator)
    residual = quantizer.rvq_rest.input_proj(latents[..., None])[..., 0]
    for codebook in quantizer.codebooks[1:]:
        residual = residual - _fit(codebook, residual, generator)


def _fit(codebook: Codebook, points: Tensor, generator: torch.Generator) -> Tensor:
    bins = len(codebook.cluster_usage)
    centres = kmeans(points, bins, 12, generator)
    codebook.embedding_sum.copy_(centres)
    codebook.cluster_usage.fill_(1.0)
    codebook.get_buffer("_initialized").fill_(1.0)
    return centres[torch.cdist(points, centres).argmin(1)]


@torch.no_grad()
def follow(
    mimi: Mimi, quantized: Quantized, played: int, generator: torch.Generator, revive: bool
) -> None:
    """Move every codebook in use towards what it was asked to match; `revive` dead codes.

    The first `played` rows are the agent's. In the acoustic codebooks they count as much as all
    others together, since only the agent is ever played back from them.
    """
    rows, frames = quantized.codes.shape[0], quantized.codes.shape[-1]
    even = torch.ones(rows * frames)
    playing = even.clone()
    playing[: played * frames] = (rows - played) / played
    for k, codebook in enumerate(mimi.quantizer.codebooks):
        weights = even if k == 0 else playing
        points = quantized.inputs[k].flatten(0, 1)
        codes = quantized.codes[:, k].flatten()
        counts = torch.bincount(codes, weights, len(codebook.cluster_usage))
        weighted = points * weights[:, None]
        sums = torch.zeros_like(codebook.embedding_sum).index_add_(0, codes, weighted)
        average((counts, sums))
        codebook.cluster_usage.lerp_(counts, 1 - DECAY)
        codebook.embedding_sum.lerp_(sums, 1 - DECAY)
        if revive:
            _revive(codebook, points, generator)


def _revive(codebook: Codebook, points: Tensor, generator: torch.Generator) -> None:
    usage, sums = codebook.cluster_usage, codebook.embedding_sum
    mean = usage.mean()
    dead = (usage < DEAD * mean).nonzero()[:, 0]
    chosen = torch.randint(len(points), (len(dead),), generator=generator)
    usage[dead] = mean
    sums[dead] = points[chosen] * mean
    adopt_first((usage, sums))
