"""Trains the language model on made-up calls: when to speak, what was asked, what to say.

Teacher-forced over whole calls with the prefill in place. What is only for training (the head that
names what was heard, the dropping of acoustic codes) leaves nothing behind in the weights' names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.config import ModelConfig
from model.core import AGENT_CODEBOOKS
from model.layers import window_size
from model.lm import LanguageModel
from model.mimi import Mimi
from model.prompt import lay_out

from .dialogue import NOBODY, Call, Dialogues, Mix
from .together import rank, workers
from .training import Run

FRAMES = 448
BATCH = 4
"""Calls of one step, shared out among the processes."""
DEEP = 224
"""Positions of a batch on which the depformer is trained."""
QUIET_DEEP = 32
"""Of them, where the agent is silent."""
LEARNING_RATE = 1.2e-3
EASY = 0.25
"""Share of the training in which people speak in quiet places and ask what is known."""
PATIENCE = 0.1
"""Steps on mostly silent calls after the training, as a share of it: that the agent asks once, and
never again, whether someone is there hangs on one frame that is rare in calls of all kinds."""
PATIENT_RATE = LEARNING_RATE / 8
EASY_MIX = Mix(known=0.85, near_miss=0.05, quiet=0.8)
PATIENT_MIX = Mix(silent=0.9, middle=0.6, second_asks=True)
ACOUSTIC_DROP = 0.6
HEARD_WEIGHT = 0.5
FIRST_ACOUSTIC = 1 + AGENT_CODEBOOKS + 1


@dataclass(frozen=True)
class Phase:
    """A training on calls of one kind; `stream` keeps its calls apart from other phases'."""

    name: str
    stream: int
    rate: float
    mix: Callable[[int], Mix]
    """By step."""


class LanguageTraining:
    """The language model and a head that names the answer that a question asks for."""

    def __init__(self, dialogues: Dialogues, config: ModelConfig, mimi: Mimi, seed: int) -> None:
        torch.manual_seed(seed)
        self.dialogues, self.config, self.seed = dialogues, config, seed
        self.lm = LanguageModel(config.lm)
        self.head = nn.Linear(config.lm.dim, len(dialogues.answers))
        self.window = window_size(config.lm.context, config.attention_window)
        _start(self.lm, mimi)

    def run(self, folder: Path, steps: int) -> None:
        """Calls of every kind, then mostly silent ones; `patience` has the weights in the end."""
        mixed = Phase(
            "language", 31, LEARNING_RATE, lambda step: EASY_MIX if step < EASY * steps else Mix()
        )
        silent = Phase("patience", 32, PATIENT_RATE, lambda step: PATIENT_MIX)
        self._go(mixed, folder, steps)
        self._go(silent, folder, max(1, round(PATIENCE * steps)))

    def _go(self, phase: Phase, folder: Path, steps: int) -> None:
        weights = [*self.lm.parameters(), *self.head.parameters()]
        optimizer = torch.optim.AdamW(weights, phase.rate, betas=(0.9, 0.95), weight_decay=0.02)
        modules = {"lm": self.lm, "head": self.head}

        def loss(step: int) -> tuple[Tensor, dict[str, float]]:
            return self._loss(step, self._calls(phase, step))

        Run(phase.name, folder, steps, modules, optimizer, phase.rate, loss).go()

    def _calls(self, phase: Phase, step: int) -> list[Call]:
        rng = np.random.default_rng([self.seed, phase.stream, step, rank()])
        mix = phase.mix(step)
        return [self.dialogues.draw(rng, mix) for _ in range(BATCH // workers())]

    def _loss(self, step: int, calls: list[Call]) -> tuple[Tensor, dict[str, float]]:
        columns = torch.stack([lay_out(call.frames, self.config.lm) for call in calls])
        generator = torch.Generator().manual_seed((self.seed * 1_000_003 + step) * 64 + rank())
        hidden = self._hidden(columns[..., :-1], generator)
        text, figures = self._text(hidden, columns, calls)
        heard = self._heard(hidden, calls, figures)
        sound = self._sound(hidden, columns, calls, generator, figures)
        return text + HEARD_WEIGHT * heard + sound, figures

    def _hidden(self, tokens: Tensor, generator: torch.Generator) -> Tensor:
        """`[B, T, D]`; in some calls people's acoustic codes are not heard, phones only."""
        lm = self.lm
        heard = (torch.rand(len(tokens), 1, 1, generator=generator) > ACOUSTIC_DROP).float()
        rows = [lm.emb[row](tokens[:, row + 1]) for row in range(self.config.lm.n_q)]
        clear = torch.stack(rows[: FIRST_ACOUSTIC - 1]).sum(0)
        acoustic = torch.stack(rows[FIRST_ACOUSTIC - 1 :]).sum(0)
        embedded = clear + heard * acoustic + lm.text_emb(tokens[:, 0])
        return lm.hidden(embedded, self.window)

    def _text(
        self, hidden: Tensor, columns: Tensor, calls: list[Call]
    ) -> tuple[Tensor, dict[str, float]]:
        """The output at p decides the text at p + 1."""
        targets = columns[:, 0, 1:-1]
        weights = torch.stack([call.text_weight for call in calls])[:, 1:]
        logits = self.lm.text_linear(hidden[:, :-1])
        losses = F.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
        loss = (losses * weights).sum() / weights.sum()
        spoken = (targets != self.config.lm.existing_text_padding_id) & (weights > 0)
        hits = logits.argmax(-1) == targets
        first = weights == 4.0
        return 4 * loss, {
            "text": float(loss.detach()),
            "text_error": 1 - _share(hits[spoken]),
            "first_error": 1 - _share(hits[first]),
        }

    def _heard(self, hidden: Tensor, calls: list[Call], figures: dict[str, float]) -> Tensor:
        wanted = torch.stack([call.heard for call in calls])
        marked = wanted != NOBODY
        logits = self.head(hidden[marked])
        figures["heard_error"] = 1 - _share(logits.argmax(-1) == wanted[marked])
        losses = F.cross_entropy(logits, wanted[marked], reduction="sum")
        return losses / max(1, len(logits))

    def _sound(
        self,
        hidden: Tensor,
        columns: Tensor,
        calls: list[Call],
        generator: torch.Generator,
        figures: dict[str, float],
    ) -> Tensor:
        """The output at p, with the text at p + 1, decides the agent's codes at p + 1."""
        call, frame = self._deep(calls, generator)
        column = columns[call, :, frame]
        codes = column[:, 1 : 1 + AGENT_CODEBOOKS]
        logits = self.lm.depformer_logits(hidden[call, frame - 1], column[:, 0], codes)
        hits = logits.argmax(-1) == codes
        figures["code_error"] = 1 - _share(hits)
        return F.cross_entropy(logits.flatten(0, 1), codes.flatten())

    def _deep(self, calls: list[Call], generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Which columns: all around a stop, then those where the agent speaks, some silent ones."""
        speaking = torch.stack([c.speaking for c in calls])
        stop = torch.stack([c.stop for c in calls])
        live = torch.stack([torch.arange(len(c.stop)) > c.live + 1 for c in calls])
        score = torch.rand(speaking.shape, generator=generator)
        sounding = torch.where(live & (speaking | stop), score + 0.5 * stop, -1.0)
        silent = torch.where(live & ~speaking & ~stop, score, -1.0)
        loud, quiet = (DEEP - QUIET_DEEP) // workers(), QUIET_DEEP // workers()
        chosen = torch.cat([_best(sounding, loud), _best(silent, quiet)])
        return chosen // speaking.shape[1], chosen % speaking.shape[1]


def _share(hits: Tensor) -> float:
    """All, where there is nothing to hit: nobody may have spoken in the calls of a step."""
    return float(hits.float().mean()) if hits.numel() else 1.0


def _best(score: Tensor, count: int) -> Tensor:
    """Flat indices of the `count` highest scores that are not negative."""
    values, places = score.flatten().topk(min(count, score.numel()))
    return places[values >= 0]


@torch.no_grad()
def _start(lm: LanguageModel, mimi: Mimi) -> None:
    """Small embeddings; what people say begins with the places of the codec's own codes."""
    tables = [m.weight for m in lm.modules() if isinstance(m, nn.Embedding)]
    for table in tables:
        table.normal_(0, 0.1)
    user = lm.emb[AGENT_CODEBOOKS:].parameters()
    for level, (row, codebook) in enumerate(zip(user, mimi.quantizer.codebooks, strict=True)):
        places = codebook.table()
        centred = (places - places.mean(0)) / (places.std() + 1e-6)
        projection = torch.randn(places.shape[1], lm.config.dim) / places.shape[1] ** 0.5
        row[: len(places)] = (0.5 if level == 0 else 0.1) * centred @ projection
