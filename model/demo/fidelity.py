"""Does the stored checkpoint choose as the trained model does? Storage rounds to bfloat16."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from model.checkpoint.load import load_checkpoint
from model.core import AGENT_CODEBOOKS
from model.layers import window_size
from model.lm import LanguageModel
from model.prompt import lay_out

from .dialogue import Call
from .export import Trained


@torch.inference_mode()
def agreement(trained: Trained, folder: Path, calls: Sequence[Call]) -> dict[str, float]:
    """Shares of equal greedy choices in `calls`, fed with what should have been said."""
    stored = load_checkpoint(str(folder), device=torch.device("cpu"))
    window = window_size(trained.config.lm.context, trained.config.attention_window)
    columns = torch.stack([lay_out(call.frames, trained.config.lm) for call in calls])
    live = torch.stack([torch.arange(call.frames.shape[1]) > call.live + 1 for call in calls])
    speaking = torch.stack([call.speaking for call in calls]) & live
    texts, codes = zip(
        *(_choices(lm, columns, live, speaking, window) for lm in (trained.lm, stored.lm)),
        strict=True,
    )
    return {
        "text": float((texts[0] == texts[1]).float().mean()),
        "codes": float((codes[0] == codes[1]).float().mean()),
    }


def _choices(
    lm: LanguageModel, columns: Tensor, live: Tensor, speaking: Tensor, window: int
) -> tuple[Tensor, Tensor]:
    """The text chosen at every live frame, and the codes chosen where the agent speaks."""
    hidden = lm.hidden(lm.embed(columns[..., :-1]), window)
    call, frame = live.nonzero(as_tuple=True)
    text = lm.text_linear(hidden[call, frame - 1]).argmax(-1)
    call, frame = speaking.nonzero(as_tuple=True)
    column = columns[call, :, frame]
    said = column[:, 1 : 1 + AGENT_CODEBOOKS]
    logits = lm.depformer_logits(hidden[call, frame - 1], column[:, 0], said)
    return text, logits.argmax(-1)
