"""How far one sound is from another, in the spectrum and in time."""

from __future__ import annotations

import math
from functools import cache

import torch
from torch import Tensor

from model.core import SAMPLE_RATE

WINDOWS = (128, 256, 512, 1024, 2048)
FLOOR = 3e-3


def mel_distance(wanted: Tensor, got: Tensor, window: int) -> tuple[Tensor, Tensor]:
    """L1 of log-mel spectra and L1 of the roots of the magnitudes, of `[B, T]` sounds."""
    mel = _mel_bank(window)
    size_wanted, size_got = _magnitude(wanted, window), _magnitude(got, window)
    logs = (mel @ size_wanted + FLOOR).log() - (mel @ size_got + FLOOR).log()
    roots = (size_wanted + 1e-6).sqrt() - (size_got + 1e-6).sqrt()
    return logs.abs().mean(), roots.abs().mean()


def _magnitude(x: Tensor, window: int) -> Tensor:
    shape = torch.hann_window(window)
    spectrum = torch.stft(x, window, window // 4, window=shape, return_complex=True)
    return (spectrum.real.square() + spectrum.imag.square() + 1e-9).sqrt() / math.sqrt(window)


@cache
def _mel_bank(window: int) -> Tensor:
    """Triangles `[M, window / 2 + 1]`, evenly spaced on the mel scale."""
    bands = max(8, min(80, window // 12))
    top = 2595 * math.log10(1 + SAMPLE_RATE / 2 / 700)
    edges = 700 * (10 ** (torch.linspace(0, top, bands + 2) / 2595) - 1)
    hz = torch.linspace(0, SAMPLE_RATE / 2, window // 2 + 1)
    rise = (hz - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    fall = (edges[2:, None] - hz) / (edges[2:] - edges[1:-1])[:, None]
    bank = torch.minimum(rise, fall).clamp(min=0)
    return bank / bank.sum(1, keepdim=True).clamp(min=1e-6)
