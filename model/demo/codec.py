"""Trains Mimi: to hear what people say and to play back what the agent says.

The first codebook is taught phones (in the place of Mimi's distillation from a speech model), from
many voices in many conditions; the whole codec is taught to reproduce the agent's voices. People's
voices are never reproduced. Everything is float32.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.mimi import Mimi, Quantized

from .align import PHONES
from .codebooks import follow, start_codebooks
from .corpus import Corpus
from .crops import LABELS, agent_crop, person_crop
from .listening import Listening
from .shape import ATTENTION_WINDOW, MIMI
from .spectral import WINDOWS, mel_distance
from .starting import scale_layers
from .together import adopt_first, rank, workers
from .training import Run

AGENT_CROPS, PERSON_CROPS, CROP_FRAMES = 4, 8, 16
"""Of one step, shared out among the processes."""
QUANTIZE_FROM = 500
FIT_BATCHES = 48
HEARD_WEIGHT = 2.0
"""Weight of hearing against playing."""
LEARNING_RATE = 1e-3


class Ear(nn.Module):
    """Reads phones, four to a frame, off the first codebook; dropped after training."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(dim, 192, 3, padding=1), nn.GELU(), nn.Conv1d(192, LABELS * len(PHONES), 1)
        )

    def forward(self, x: Tensor) -> Tensor:
        """`[B, d, F]` to logits `[B, F, LABELS, phones]`."""
        out: Tensor = self.net(x).transpose(1, 2).unflatten(2, (LABELS, len(PHONES)))
        return out


class CodecTraining:
    """The joint training of encoder, codebooks and decoder."""

    def __init__(self, corpus: Corpus, seed: int) -> None:
        torch.manual_seed(seed)
        self.corpus, self.seed = corpus, seed
        self.mimi = Mimi(MIMI, ATTENTION_WINDOW)
        self.ear = Ear(MIMI.quantizer.dimension)
        self.listening = Listening(corpus, seed)
        self.aligned = [u for u in self.listening.utterances if u.phones]
        self._generator = torch.Generator().manual_seed(seed)
        self._last: Quantized | None = None
        self.agent_crops = AGENT_CROPS // workers()
        scale_layers(self.mimi, self.batch(0)[0])
        adopt_first(self.mimi.parameters())

    def run(self, folder: Path, steps: int) -> None:
        weights = [*self.mimi.parameters(), *self.ear.parameters()]
        optimizer = torch.optim.AdamW(weights, LEARNING_RATE, betas=(0.8, 0.99))
        modules = {"mimi": self.mimi, "ear": self.ear}
        Run("codec", folder, steps, modules, optimizer, LEARNING_RATE, self.loss, self.after).go()

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        """PCM `[A + P, 1, T]`, the agent's crops first, and phones `[P, F, LABELS]`."""
        rng = np.random.default_rng([self.seed, 11, step, rank()])
        agent = [agent_crop(self.corpus, rng, CROP_FRAMES) for _ in range(self.agent_crops)]
        people = [
            person_crop(self.listening, self.aligned, rng, CROP_FRAMES)
            for _ in range(PERSON_CROPS // workers())
        ]
        pcm = np.stack([*agent, *(p for p, _ in people)])
        return torch.from_numpy(pcm)[:, None], torch.from_numpy(np.stack([y for _, y in people]))

    def loss(self, step: int) -> tuple[Tensor, dict[str, float]]:
        pcm, phones = self.batch(step)
        if step == QUANTIZE_FROM:
            self._start_codebooks(step)
        latent = self.mimi.encode_latent_sequence(pcm)
        quantized = self.mimi.quantize_latent(latent) if step >= QUANTIZE_FROM else None
        heard, figures = self._heard(latent, quantized, phones)
        played = self._played(pcm[: self.agent_crops], latent, quantized, step, figures)
        loss = played + HEARD_WEIGHT * heard
        if quantized is not None:
            commit = F.mse_loss(quantized.inputs, quantized.chosen)
            figures["commit"] = float(commit.detach())
            loss = loss + 0.25 * len(quantized.inputs) * commit
        self._last = quantized
        return loss, figures

    def after(self, step: int) -> None:
        if self._last is not None:
            revive = step % 20 == 0
            follow(self.mimi, self._last, self.agent_crops, self._generator, revive)

    def _heard(
        self, latent: Tensor, quantized: Quantized | None, phones: Tensor
    ) -> tuple[Tensor, dict[str, float]]:
        plain = self.mimi.quantizer.rvq_first.input_proj(latent[self.agent_crops :])
        logits = self.ear(plain)
        loss = _phone_loss(logits, phones)
        if quantized is not None:
            chosen = quantized.chosen[0, self.agent_crops :].transpose(1, 2)
            logits = self.ear(plain + (chosen - plain).detach())
            loss = 0.4 * loss + _phone_loss(logits, phones)
        spoken = phones > 0
        missed = logits.argmax(-1) != phones
        return loss, {
            "phone_error": _share(missed & spoken, spoken),
            "silence_error": _share(missed & ~spoken, ~spoken),
        }

    def _played(
        self,
        pcm: Tensor,
        latent: Tensor,
        quantized: Quantized | None,
        step: int,
        figures: dict[str, float],
    ) -> Tensor:
        if quantized is None:
            q = self.mimi.quantizer
            noisy = latent[: self.agent_crops] + 0.05 * torch.randn_like(latent[: self.agent_crops])
            through = q.rvq_first.output_proj(q.rvq_first.input_proj(noisy))
            through = through + q.rvq_rest.output_proj(q.rvq_rest.input_proj(noisy))
        else:
            through = quantized.latent[: self.agent_crops]
        return playing_loss(pcm, self.mimi.decode_latent_sequence(through), step, figures)

    @torch.no_grad()
    def _start_codebooks(self, step: int) -> None:
        batches = [self.batch(10_000_000 + step + i)[0] for i in range(FIT_BATCHES)]
        latents = [self.mimi.encode_latent_sequence(pcm) for pcm in batches]
        points = torch.cat([x.transpose(1, 2).flatten(0, 1) for x in latents])
        start_codebooks(self.mimi, points, self._generator)
        adopt_first(self.mimi.buffers())


def playing_loss(wanted: Tensor, got: Tensor, step: int, figures: dict[str, float]) -> Tensor:
    """Spectra in three of five windows and the waveform itself, of `[B, 1, T]` sounds."""
    windows = [WINDOWS[(step + i * 2) % len(WINDOWS)] for i in range(3)]
    pairs = [mel_distance(wanted[:, 0], got[:, 0], window) for window in windows]
    mel = torch.stack([m for m, _ in pairs]).mean()
    roots = torch.stack([r for _, r in pairs]).mean()
    wave = (wanted - got).abs().mean()
    figures |= {"mel": float(mel.detach()), "wave": float(wave.detach())}
    return mel + 4 * roots + 15 * wave


def _phone_loss(logits: Tensor, phones: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 2), phones.flatten(), label_smoothing=0.05)


def train_codec(corpus: Path, folder: Path, seed: int, steps: int) -> None:
    """The joint training, as one of the processes that share it."""
    CodecTraining(Corpus.load(corpus), seed).run(folder, steps)


def _share(part: Tensor, whole: Tensor) -> float:
    return float(part.sum()) / max(1, int(whole.sum()))


def load_codec(folder: Path) -> Mimi:
    """The trained codec. Raises `FileNotFoundError`."""
    mimi = Mimi(MIMI, ATTENTION_WINDOW)
    state = torch.load(folder / "codec.pt", weights_only=True)
    mimi.load_state_dict(state["mimi"])
    decoder = folder / "decoder.pt"
    if decoder.exists():
        fine = torch.load(decoder, weights_only=True)["mimi"]
        mimi.load_state_dict(fine)
    return mimi.eval()
