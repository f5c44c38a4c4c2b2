"""What a call begins with: voice, silence, persona, silence, as tokens or as ready embeddings.

Applies the acoustic delay, so that every row up to the acoustic tail one position past the end is
known before anything is computed. Knows no weights and no slots; `model/prefill.py` runs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from model.config import LMConfig, ModelConfig
from model.lm_state import initial_column
from model.voices import COLUMNS, Voice

SILENCE_FRAMES = 6
"""Half a second before the persona, and again after it."""


@dataclass(frozen=True)
class Prompt:
    """M positions that are known in advance, on the CPU.

    `embeddings` `[P, D]` are positions 0 to P-1 as the transformer takes them; `tokens`
    `[17, M + 1]` are the columns from P on. In column M only the delayed rows are known: text and
    first agent codebook are decided at admission, the first user codebook comes with a frame.
    """

    embeddings: Tensor
    tokens: Tensor

    @property
    def positions(self) -> int:
        """M, the position that the first live frame is stepped at."""
        return self.tokens.shape[1] - 1


def build_prompt(voice: Voice, persona: Sequence[int], config: ModelConfig) -> Prompt:
    """The prompt of a `.pt` voice and a tokenised persona, which may be empty.

    The voice's cache columns supply its last position and the acoustic tail one further.
    """
    last, end = voice.frames - 1, voice.frames
    unheard = torch.zeros(len(config.silence_codes), voice.frames, dtype=torch.int64)
    tokens = lay_out(call_frames(unheard, persona, config), config.lm)
    delayed = torch.tensor(config.lm.delays) > 0
    tokens[:, last] = voice.cache[:, last % COLUMNS]
    tokens[delayed, end] = voice.cache[delayed, end % COLUMNS]
    return Prompt(voice.embeddings, tokens)


def build_prompt_from_codes(codes: Tensor, persona: Sequence[int], config: ModelConfig) -> Prompt:
    """The prompt of a voice given as agent codes `[8, N]`: the WAV path of the reference."""
    tokens = lay_out(call_frames(codes, persona, config), config.lm)
    return Prompt(torch.zeros(0, config.lm.dim), tokens)


def call_frames(codes: Tensor, persona: Sequence[int], config: ModelConfig) -> Tensor:
    """What each prefill call brings, before any delay: `[17, M]` of voice `codes` `[8, N]`."""
    padding = config.lm.existing_text_padding_id
    quiet = [padding] * SILENCE_FRAMES
    text = [padding] * codes.shape[1] + quiet + list(persona) + quiet
    silence = torch.tensor(config.silence_codes)[:, None]
    sine = torch.tensor(config.sine_codes)[:, None]
    agent = torch.cat([codes, silence.expand(-1, len(text) - codes.shape[1])], dim=1)
    return torch.cat([torch.tensor([text]), agent, sine.expand(-1, len(text))])


def lay_out(frames: Tensor, config: LMConfig) -> Tensor:
    """Columns `[17, T + 1]` of frames `[17, T]`: the rows of call c stand at c plus their delay.

    Each row begins with its initial token for one position more than its delay, so the first call
    is never heard.
    """
    length = frames.shape[1]
    columns = torch.tensor(initial_column(config))[:, None].repeat(1, length + 1)
    for row, delay in enumerate(config.delays):
        columns[row, 1 + delay : length + delay] = frames[row, 1:]
    return columns
