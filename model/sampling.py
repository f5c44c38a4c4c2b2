"""From logits to tokens: greedy, or seeded top-k whose noise is an input.

The noise of a live call is a hash of (seed, position, codebook, lane), computed with integer
operations on tensors, so that it depends on neither slot, batch nor device. Knows nothing of the
model; row 0 is text, rows 1 to 16 are audio codebooks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from model.core import Sampling

_WORD = 0xFFFF_FFFF
_SEED = 2**63 - 1
Choose = Callable[[Tensor], Tensor]
"""Logits `[B, V]`, in the model's dtype, to tokens `[B]`."""


def greedy(logits: Tensor) -> Tensor:
    """The first of the largest. Casting to fp32 first would change nothing."""
    return logits.argmax(-1)


def sample(logits: Tensor, temperature: Tensor, top_k: Tensor, noise: Tensor) -> Tensor:
    """Draw from the `top_k` `[B]` likeliest of `logits` `[B, V]` at `temperature` `[B]`.

    `noise`, `[B, K]`, are Exp(1) draws; the token is the argmax of p / noise over the K likeliest,
    not renormalised, as the reference does. A row with `temperature` 0 is greedy.
    """
    wide = logits.float()
    cold = temperature <= 0
    scale = torch.where(cold, torch.ones_like(temperature), temperature)
    probabilities = torch.softmax(wide / scale[:, None], dim=-1)
    width = min(noise.shape[-1], logits.shape[-1])
    top, tokens = probabilities.topk(width, dim=-1)
    lanes = torch.arange(width, device=logits.device)
    race = torch.where(lanes < top_k[:, None], top / noise[:, :width], -1.0)
    drawn = tokens.gather(-1, race.argmax(-1, keepdim=True)).squeeze(-1)
    return torch.where(cold, wide.argmax(-1), drawn)


def exponential_noise(seed: Tensor, position: Tensor, rows: Tensor, lanes: int) -> Tensor:
    """Exp(1) draws `[B, R, lanes]` of `seed` `[B]`, `position` `[B]`, `rows` `[R]`, all int64."""
    state = _mix(seed & _WORD)
    state = _mix(state ^ ((seed >> 32) & _WORD))
    state = _mix((state + position) & _WORD)
    state = _mix((state[:, None] * 17 + rows) & _WORD)
    lane = torch.arange(lanes, device=seed.device)
    bits = _mix((state[..., None] + lane * 0x9E37_79B9) & _WORD)
    # 23 bits and a half stay exact in fp32 and never reach 0 or 1.
    return -torch.log(((bits >> 9).float() + 0.5) * 2.0**-23)


def _mix(x: Tensor) -> Tensor:
    """A bijection of 32-bit words, held in int64, that flips half the bits for any change."""
    x = ((x ^ (x >> 16)) * 0x7FEB_352D) & _WORD
    x = ((x ^ (x >> 15)) * 0x846C_A68B) & _WORD
    return x ^ (x >> 16)


@dataclass(frozen=True)
class SamplerRows:
    """Sampling parameters of all slots, `[B]` each; temperature 0 means greedy.

    `text_lanes` and `audio_lanes` bound every call's top-k and are fixed at construction.
    """

    seed: Tensor
    temperature_text: Tensor
    temperature_audio: Tensor
    top_k_text: Tensor
    top_k_audio: Tensor
    text_lanes: int
    audio_lanes: int

    @classmethod
    def allocate(
        cls, slots: int, device: torch.device, text_lanes: int = 25, audio_lanes: int = 250
    ) -> SamplerRows:
        def zeros(dtype: torch.dtype) -> Tensor:
            return torch.zeros(slots, dtype=dtype, device=device)

        return cls(
            seed=zeros(torch.int64),
            temperature_text=zeros(torch.float32),
            temperature_audio=zeros(torch.float32),
            top_k_text=zeros(torch.int64),
            top_k_audio=zeros(torch.int64),
            text_lanes=text_lanes,
            audio_lanes=audio_lanes,
        )

    def rows(self, start: int, stop: int) -> SamplerRows:
        return SamplerRows(
            self.seed[start:stop],
            self.temperature_text[start:stop],
            self.temperature_audio[start:stop],
            self.top_k_text[start:stop],
            self.top_k_audio[start:stop],
            self.text_lanes,
            self.audio_lanes,
        )

    def assign(self, slot: int, sampling: Sampling | None) -> None:
        """Give the slot a call's sampler; None makes it greedy."""
        self.temperature_text[slot] = sampling.temperature_text if sampling else 0.0
        self.temperature_audio[slot] = sampling.temperature_audio if sampling else 0.0
        self.top_k_text[slot] = sampling.top_k_text if sampling else 1
        self.top_k_audio[slot] = sampling.top_k_audio if sampling else 1
        self.seed[slot] = sampling.seed & _SEED if sampling else 0

    def noise(self, position: Tensor, steps: int) -> Noise:
        """The draws for the tokens of `position`, int64 `[B]`."""
        text = torch.zeros(1, dtype=torch.int64, device=position.device)
        audio = torch.arange(1, steps + 1, device=position.device)
        return Noise(
            exponential_noise(self.seed, position, text, self.text_lanes)[:, 0],
            exponential_noise(self.seed, position, audio, self.audio_lanes),
        )

    def choosers(self, noise: Noise) -> Choosers:
        """One `Choose` for the text and one for each codebook."""

        def text(logits: Tensor) -> Tensor:
            return sample(logits, self.temperature_text, self.top_k_text, noise.text)

        def audio(logits: Tensor, step: int) -> Tensor:
            draws = noise.audio[:, step]
            return sample(logits, self.temperature_audio, self.top_k_audio, draws)

        return Choosers(text, audio)


@dataclass(frozen=True)
class Noise:
    """Exp(1) draws of one position: `text` `[B, Kt]`, `audio` `[B, steps, Ka]`."""

    text: Tensor
    audio: Tensor


@dataclass(frozen=True)
class Choosers:
    """How the tokens of one step are decided."""

    text: Choose
    audio: Callable[[Tensor, int], Tensor]


GREEDY = Choosers(greedy, lambda logits, step: greedy(logits))
