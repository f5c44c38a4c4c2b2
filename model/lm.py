"""The language model's weights, under the released key names, and its whole-sequence forwards.

A position has 17 rows: text, 8 agent codebooks, 8 user codebooks. Nothing here knows of delays,
prompts, slots or sampling; everything is differentiable.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from model.config import LMConfig
from model.depformer import DepformerTransformer
from model.layers import RMSNorm
from model.temporal import TemporalTransformer


class LanguageModel(nn.Module):
    """`model.safetensors` as a module, fused projections included (475 tensors for the 7B)."""

    def __init__(self, config: LMConfig) -> None:
        super().__init__()
        self.config = config
        dim, inner = config.dim, config.depformer_dim
        audio_rows, text_rows = config.card + 1, config.text_card + 1
        self.emb = nn.ModuleList(nn.Embedding(audio_rows, dim) for _ in range(config.n_q))
        self.text_emb = nn.Embedding(text_rows, dim)
        self.transformer = TemporalTransformer(config)
        self.out_norm = RMSNorm(dim)
        self.text_linear = nn.Linear(dim, config.text_card, bias=False)
        self.depformer_in = nn.ModuleList(
            nn.Linear(dim, inner, bias=False) for _ in range(config.dep_q)
        )
        self.depformer_text_emb = nn.Embedding(text_rows, inner)
        self.depformer_emb = nn.ModuleList(
            nn.Embedding(audio_rows, inner) for _ in range(config.dep_q - 1)
        )
        self.depformer = DepformerTransformer(config)
        self.linears = nn.ModuleList(
            nn.Linear(inner, config.card, bias=False) for _ in range(config.dep_q)
        )

    def embed(self, tokens: Tensor) -> Tensor:
        """Sum the rows of `tokens`, `[B, 17, ...]`, to `[B, ..., D]`.

        Audio codebooks 0 to 15 first, the text last: in bf16 the order is part of the result.
        """
        total = self.emb[0](tokens[:, 1])
        for row in range(1, self.config.n_q):
            total = total + self.emb[row](tokens[:, row + 1])
        out: Tensor = total + self.text_emb(tokens[:, 0])
        return out

    def hidden(self, embedded: Tensor, window: int) -> Tensor:
        """`[B, T, D]` embeddings of positions 0 to T-1 to the normed output that the heads read."""
        out: Tensor = self.out_norm(self.transformer(embedded, window))
        return out

    def depformer_logits(self, hidden: Tensor, text: Tensor, codes: Tensor) -> Tensor:
        """Teacher-forced logits `[N, K, card]` of codebooks 0 to K-1 of N positions.

        `hidden` `[N, D]` is the normed output one position earlier, `text` `[N]` the text token
        that goes with the codes `[N, K]`; the last code is only a target and never read.
        """
        steps = codes.shape[1]
        previous = [self.depformer_text_emb(text)]
        previous += [self.depformer_emb[k](codes[:, k]) for k in range(steps - 1)]
        inputs = [self.depformer_in[k](hidden) + previous[k] for k in range(steps)]
        out = self.depformer(torch.stack(inputs, dim=1))
        return torch.stack([self.linears[k](out[:, k]) for k in range(steps)], dim=1)
