"""Makes a voice of a recording, and a codec's constants: the operator's side of voice prompts.

A clip is brought to -24 LUFS, encoded frame by frame and laid out the way the reference saves its
prompts: the embeddings of positions 0 to N-2 and the token columns around N-1.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from model.checkpoint.errors import VoiceError
from model.config import LMConfig, ModelConfig
from model.core import FRAME_SAMPLES, SAMPLE_RATE, Pcm
from model.lm import LanguageModel
from model.mimi import Mimi, StreamingMimi
from model.prompt import call_frames, lay_out
from model.state import Carry, CarryLayout
from model.voices import COLUMNS, Voice

LOUDNESS = -24.0
"""LUFS, integrated, of a voice prompt."""
SHORTEST_S, LONGEST_S = 1.0, 30.0
SETTLED_FRAMES = 8
"""After so many equal frames Mimi's state is that of an endless one."""


def normalise_loudness(pcm: Pcm) -> Pcm:
    """`pcm`, 24 kHz mono, at -24 LUFS. Raises `VoiceError` for silence."""
    from pyloudnorm.meter import Meter  # here, because it brings scipy, which no call needs

    meter: Any = Meter(SAMPLE_RATE)
    measured = meter.integrated_loudness(pcm.astype(np.float64))
    if not np.isfinite(measured):
        raise VoiceError("the recording is silent; a voice needs speech")
    louder: Pcm = (pcm * 10 ** ((LOUDNESS - measured) / 20)).astype(np.float32)
    return louder


@torch.inference_mode()
def encode_frames(mimi: Mimi, pcm: Pcm) -> Tensor:
    """Codes `[8, N]`, on the CPU, of `pcm` from a fresh start, as a call would encode it.

    Frame by frame, since the window of a stream differs from that of a whole clip after 10 s. The
    last frame is padded with zeros.
    """
    device = next(mimi.parameters()).device
    layout = CarryLayout()
    codec = StreamingMimi(mimi, layout)
    carry, state = Carry.allocate(layout, 1, device), codec.allocate(1, device)
    stepped = torch.ones(1, dtype=torch.bool, device=device)
    wave = F.pad(torch.from_numpy(pcm), (0, -len(pcm) % FRAME_SAMPLES)).to(device)
    codes: list[Tensor] = []
    for frame in wave.view(-1, 1, 1, FRAME_SAMPLES):
        codes.append(codec.encode(frame, state, carry, codec.cells(len(codes))))
        state.commit(stepped)
        carry.commit(stepped)
    return torch.stack(codes, dim=2)[0].cpu()


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
        frames = codes.shape[1]
        columns = lay_out(call_frames(codes, (), self.config)[:, :frames], self.config.lm)
        with torch.inference_mode():
            spoken = columns[None, :, : frames - 1].to(self.lm.text_emb.weight.device)
            embeddings = self.lm.embed(spoken)[0].cpu()
        return Voice(name, embeddings, ring_of(self.config.lm, columns, frames))
