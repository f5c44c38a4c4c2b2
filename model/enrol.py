"""Makes a voice of a recording, and a codec's constants: the operator's side of voice prompts.

A clip is brought to -24 LUFS, encoded frame by frame and laid out the way the reference saves its
prompts: the embeddings of positions 0 to N-2 and the token columns around N-1.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from model.checkpoint.errors import VoiceError
from model.checkpoint.fit import PAD
from model.config import LMConfig, ModelConfig
from model.core import FRAME_SAMPLES, SAMPLE_RATE, Pcm
from model.lm import LanguageModel
from model.mimi import Mimi
from model.voices import COLUMNS, Voice

LOUDNESS = -24.0
"""LUFS, integrated, of a voice prompt."""
SHORTEST_S, LONGEST_S = 1.0, 30.0
SETTLED_FRAMES = 8
"""After so many equal frames Mimi's state is that of an endless one."""


def normalise_loudness(pcm: Pcm) -> Pcm:
    """`pcm`, 24 kHz mono, at -24 LUFS. Raises `VoiceError` for silence."""
    import pyloudnorm  # here, because it brings scipy, which no call needs

    measured = pyloudnorm.Meter(SAMPLE_RATE).integrated_loudness(pcm.astype(np.float64))
    if not np.isfinite(measured):
        raise VoiceError("the recording is silent; a voice needs speech")
    louder: Pcm = (pcm * 10 ** ((LOUDNESS - measured) / 20)).astype(np.float32)
    return louder


def encode_frames(mimi: Mimi, pcm: Pcm) -> Tensor:
    """Codes `[8, N]` of `pcm` from a fresh start, the last frame padded with zeros."""
    wave = torch.from_numpy(pcm)
    padded = F.pad(wave, (0, -len(wave) % FRAME_SAMPLES))
    with torch.inference_mode():
        latent = mimi.encode_latent_sequence(padded[None, None])
        return mimi.quantize_latent(latent).codes[0]


def measure_constants(config: ModelConfig, mimi: Mimi) -> ModelConfig:
    """`config` with the codes of endless silence and of a 440 Hz sine of amplitude 0.5."""
    time = np.arange(SETTLED_FRAMES * FRAME_SAMPLES) / SAMPLE_RATE
    sine = (0.5 * np.sin(2 * np.pi * 440 * time)).astype(np.float32)
    silence_codes = encode_frames(mimi, np.zeros_like(sine))[:, -1]
    sine_codes = encode_frames(mimi, sine)[:, -1]
    return dataclasses.replace(
        config,
        silence_codes=tuple(silence_codes.tolist()),
        sine_codes=tuple(sine_codes.tolist()),
    )


def voice_columns(config: LMConfig, codes: Tensor, sine: Tensor) -> Tensor:
    """Token columns `[17, N+1]` of a voice of N frames, `codes` `[8, N]`, positions 0 to N.

    Every row starts with its initial token for one position more than its delay, so frame 0 is
    never heard; at position N only the delayed rows belong to the voice.
    """
    frames = codes.shape[1]
    rows = torch.cat([torch.full((1, frames), PAD), codes, sine[:, None].expand(-1, frames)])
    initial = [config.text_card] + [config.card] * config.n_q
    columns = torch.tensor(initial)[:, None].repeat(1, frames + 1)
    for row, delay in enumerate(config.delays):
        first = 1 + delay
        columns[row, first : frames + delay] = rows[row, 1:]
    return columns


def ring_of(config: LMConfig, columns: Tensor, frames: int) -> Tensor:
    """What the reference's ring `[17, 4]` holds after a voice of N frames.

    Only the delayed rows of column `N % 4` are new; its other rows are four positions old.
    """
    ring = columns[:, :1].repeat(1, COLUMNS)
    for position in range(max(0, frames - COLUMNS), frames):
        ring[:, position % COLUMNS] = columns[:, position]
    delayed = torch.tensor(config.delays) > 0
    ring[delayed, frames % COLUMNS] = columns[delayed, frames]
    return ring


@dataclass(frozen=True)
class Enroller:
    """The parts of a loaded model that turn recordings into voices."""

    config: ModelConfig
    lm: LanguageModel
    mimi: Mimi

    def enrol(self, name: str, pcm: Pcm) -> Voice:
        """The voice of a recording, 24 kHz mono. Raises `VoiceError` for an unsuitable one."""
        seconds = len(pcm) / SAMPLE_RATE
        if not SHORTEST_S <= seconds <= LONGEST_S:
            raise VoiceError(
                f"the recording lasts {seconds:.1f} s; use {SHORTEST_S:.0f} to {LONGEST_S:.0f} s"
            )
        codes = encode_frames(self.mimi, normalise_loudness(pcm))
        sine = torch.tensor(self.config.sine_codes)
        columns = voice_columns(self.config.lm, codes, sine)
        frames = codes.shape[1]
        with torch.inference_mode():
            embeddings = self.lm.embed(columns[None, :, : frames - 1])[0]
        return Voice(name, embeddings, ring_of(self.config.lm, columns, frames))
