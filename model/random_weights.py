"""Random weights for any configuration, under the released key names.

The scales make attention matter for the choice of tokens, which weights of the usual size would
not, and keep decoded audio finite, moving and far from full scale. Knows nothing of files.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from model.checkpoint.schema import Schema, lm_schema, mimi_schema
from model.config import LMConfig, ModelConfig
from model.core import AGENT_CODEBOOKS, FRAME_SAMPLES, SAMPLE_RATE, Pcm
from model.lm import LanguageModel
from model.mimi import Mimi
from model.modules import adopt, meta_lm, meta_mimi

PEAK = 0.2
"""Of the decoder's output, relative to full scale."""
PROBE_FRAMES = 25
EMBEDDING = 0.2
"""Standard deviation of embeddings and, at width 64, of matrices."""


@dataclass(frozen=True)
class RandomWeights:
    """Both files' tensors under the released key names, float32, on the CPU."""

    lm: dict[str, Tensor]
    mimi: dict[str, Tensor]


def random_weights(config: ModelConfig, seed: int) -> RandomWeights:
    """Draw all weights of `config`; the same seed gives the same weights."""
    generator = torch.Generator().manual_seed(seed)
    lm = _draw_all(lm_schema(config.lm), generator)
    mimi = _draw_all(mimi_schema(config.mimi), generator)
    _calibrate(config, mimi, generator)
    return RandomWeights(lm, mimi)


def build_lm(config: LMConfig, weights: Mapping[str, Tensor]) -> LanguageModel:
    """The language model that shares the tensors of `weights`."""
    return adopt(meta_lm(config), weights)


def build_mimi(config: ModelConfig, weights: Mapping[str, Tensor]) -> Mimi:
    """The codec that shares the tensors of `weights`."""
    return adopt(meta_mimi(config), weights)


def voice_like_sound(samples: int, seed: int) -> Pcm:
    """Harmonics of a wandering pitch under a syllable-like envelope; 24 kHz mono."""
    random = np.random.default_rng(seed)
    time = np.arange(samples) / SAMPLE_RATE
    pitch = 120 * (1 + 0.1 * np.sin(2 * np.pi * 0.7 * time + random.uniform(0, 6)))
    phase = 2 * np.pi * np.cumsum(pitch) / SAMPLE_RATE
    overtones = [np.sin(k * phase + random.uniform(0, 6)) / k for k in range(1, 20)]
    envelope = 0.5 - 0.5 * np.cos(2 * np.pi * 3.3 * time)
    noise = 0.02 * random.standard_normal(len(time))
    sound: Pcm = (0.2 * np.sum(overtones, axis=0) * envelope + noise).astype(np.float32)
    return sound


def _draw_all(schema: Schema, generator: torch.Generator) -> dict[str, Tensor]:
    return {name: _draw(name, spec.shape, generator) for name, spec in schema.items()}


def _draw(name: str, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    if name.endswith("_initialized"):
        return torch.ones(shape)
    if name.endswith(".scale"):
        return torch.full(shape, 0.3)
    if name.endswith("cluster_usage"):
        return 0.5 + torch.rand(shape, generator=generator)
    noise = torch.randn(shape, generator=generator)
    if name.endswith(".alpha") or (".norm" in name and name.endswith(".weight")):
        return 1 + 0.1 * noise
    if name.endswith(".bias"):
        return 0.1 * noise
    return noise * _scale(name, shape)


def _scale(name: str, shape: tuple[int, ...]) -> float:
    """Standard deviation of a matrix: enough that a wrong window or order changes the tokens."""
    if "emb" in name:
        return EMBEDDING
    if name.startswith(("linears.", "text_linear.")):
        return 8 / math.sqrt(shape[1])
    if "convtr" in name:  # `[in, out, kernel]` at stride kernel / 2: two taps meet in each sample
        return 1.5 / math.sqrt(2 * (1 if name.startswith("upsample") else shape[0]))
    if len(shape) == 3:
        return 1.5 / math.sqrt(shape[1] * shape[2])
    return 1.6 / math.sqrt(shape[1])


def _calibrate(config: ModelConfig, mimi: dict[str, Tensor], generator: torch.Generator) -> None:
    """Spread the codebooks over what the encoder says, and bring the output to `PEAK`."""
    module = build_mimi(config, mimi)
    pcm = torch.from_numpy(voice_like_sound(PROBE_FRAMES * FRAME_SAMPLES, seed=0))[None, None]
    latent = module.encode_latent_sequence(pcm)
    for branch in ("rvq_first", "rvq_rest"):
        projected = torch.einsum(
            "ed,bdt->bte", mimi[f"quantizer.{branch}.input_proj.weight"][..., 0], latent
        )
        _spread(mimi, f"quantizer.{branch}.", projected.flatten(0, 1))
    bins = config.mimi.quantizer.bins
    codes = torch.randint(bins, (1, AGENT_CODEBOOKS, PROBE_FRAMES), generator=generator)
    out = module.decode_latent_sequence(module.decode_codes(codes))
    gain = PEAK / float(out.abs().max())
    last = max(int(name.split(".")[2]) for name in mimi if name.startswith("decoder.model."))
    mimi[f"decoder.model.{last}.conv.conv.weight"].mul_(gain)
    mimi[f"decoder.model.{last}.conv.conv.bias"].mul_(gain)


def _spread(mimi: dict[str, Tensor], prefix: str, latents: Tensor) -> None:
    """Scale the codebooks of one branch to its latents `[T, d]`, finer level by level."""
    mean, deviation = latents.mean(0), latents.std(0)
    books = [name for name in mimi if name.startswith(prefix) and name.endswith("embedding_sum")]
    for level, name in enumerate(books):
        usage = mimi[name.replace("embedding_sum", "cluster_usage")].clamp(min=1e-5)
        centre = mean if level == 0 else torch.zeros_like(mean)
        table = centre + mimi[name] / EMBEDDING * deviation * 0.8**level
        mimi[name].copy_(table * usage[:, None])
