"""Teaches Mimi's decoder the agent's own lines, from exactly the codes that a call will have.

Encoder and codebooks stay as they are. Lines begin and end in the silence code, and some are cut
off as by an interruption.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from model.config import ModelConfig
from model.core import FRAME_SAMPLES
from model.mimi import Mimi

from .bank import Bank
from .codec import playing_loss
from .corpus import Corpus
from .sounds import Rng
from .speakers import Samples
from .together import rank, workers
from .training import Run
from .wording import TEXT_LEAD

BATCH, FRAMES = 4, 20
"""Crops of one step, shared out among the processes, and their length."""
LEARNING_RATE = 6e-4
CUT = 0.15
FIRST_VOICE = 0.65
FADE = 240
"""Samples over which a cut-off line ends."""
STRAY = 0.004
"""Share of acoustic codes replaced by chance, as the language model might err."""


class DecoderTraining:
    """Fine-tunes all that lies behind the codes."""

    def __init__(
        self, corpus: Corpus, bank: Bank, config: ModelConfig, mimi: Mimi, seed: int
    ) -> None:
        self.mimi, self.seed = mimi, seed
        self._silence = torch.tensor(config.silence_codes)[:, None]
        self._bins = config.mimi.quantizer.bins
        spoken = [line for line in corpus.lines if not line.general]
        self._lines = [
            [
                (bank.lines[line.text, voice].codes.long(), corpus.agent(line))
                for line in spoken
                if line.voice == voice
            ]
            for voice in range(len(bank.voices))
        ]

    def run(self, folder: Path, steps: int) -> None:
        mimi = self.mimi
        parts = (mimi.upsample, mimi.decoder_transformer, mimi.decoder)
        branches = (mimi.quantizer.rvq_first, mimi.quantizer.rvq_rest)
        weights = [w for part in parts for w in part.parameters()]
        weights += [w for branch in branches for w in branch.output_proj.parameters()]
        optimizer = torch.optim.AdamW(weights, LEARNING_RATE, betas=(0.8, 0.99))
        Run("decoder", folder, steps, {"mimi": mimi}, optimizer, LEARNING_RATE, self.loss).go()

    def loss(self, step: int) -> tuple[Tensor, dict[str, float]]:
        rng = np.random.default_rng([self.seed, 41, step, rank()])
        drawn = [self._crop(rng) for _ in range(BATCH // workers())]
        codes = torch.stack([codes for codes, _ in drawn])
        wanted = torch.from_numpy(np.stack([pcm for _, pcm in drawn]))[:, None]
        got = self.mimi.decode_latent_sequence(self.mimi.decode_codes(codes))
        figures: dict[str, float] = {}
        return playing_loss(wanted, got, step, figures), figures

    def _crop(self, rng: Rng) -> tuple[Tensor, Samples]:
        """Codes `[8, FRAMES]` and sound `[FRAMES * 1920]` of a line in its silence."""
        lines = self._lines[0 if rng.random() < FIRST_VOICE else 1]
        codes, pcm = lines[rng.integers(len(lines))]
        pcm = np.pad(pcm, (TEXT_LEAD * FRAME_SAMPLES, 0))
        if rng.random() < CUT:
            stop = int(rng.integers(TEXT_LEAD + 2, codes.shape[1]))
            codes, pcm = codes[:, :stop], _faded(pcm[: (stop + 1) * FRAME_SAMPLES], stop)
        lead = int(rng.integers(0, 6))
        start = int(rng.integers(0, max(1, lead + codes.shape[1] - FRAMES + 6)))
        size = lead + codes.shape[1]
        tail = max(0, start + FRAMES - size)
        framed = torch.cat(
            [self._silence.expand(-1, lead), codes, self._silence.expand(-1, tail)], 1
        )
        padded = np.pad(pcm, (lead * FRAME_SAMPLES, FRAMES * FRAME_SAMPLES))
        return (
            self._stray(rng, framed[:, start : start + FRAMES]),
            padded[start * FRAME_SAMPLES : (start + FRAMES) * FRAME_SAMPLES],
        )

    def _stray(self, rng: Rng, codes: Tensor) -> Tensor:
        wrong = torch.from_numpy(rng.random(codes.shape) < STRAY)
        wrong[:1] = False
        other = torch.from_numpy(rng.integers(0, self._bins, codes.shape))
        return torch.where(wrong, other, codes)


def _faded(pcm: Samples, stop: int) -> Samples:
    """Silence from frame `stop` on, after a short fade."""
    out = pcm[: stop * FRAME_SAMPLES + FADE].copy()
    fade = out[stop * FRAME_SAMPLES :]
    fade *= np.linspace(1, 0, len(fade), dtype=np.float32)
    return np.pad(out, (0, FRAME_SAMPLES - len(fade)))
