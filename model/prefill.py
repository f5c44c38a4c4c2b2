"""One causal pass over a prompt, in chunks, on tensors of its own; the result fits any slot.

All of a prompt is forced, so the depformer need not run. Chunk boundaries depend on the prompt
alone, and so does every bit of the result. Contract I3: the last position also decides the text and
the first agent codebook of the next one, but with a call's own sampler, hence at admission.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from model.config import ModelConfig
from model.layers import rope_table, window_mask, window_size
from model.lm import LanguageModel
from model.prompt import Prompt
from model.temporal import TemporalLayer

CHUNK = 64
"""Positions of one `advance`, the longest that a running call waits for a prefill."""


@dataclass(frozen=True)
class Prefix:
    """A finished prefill of M positions, shared and never written.

    `k` and `v` are `[L, H, M, head_dim]`, keys after rope; `tokens` `[17]` is column M, its text
    and first codebooks undecided; `hidden` `[1, D]` is the normed output at M - 1.
    """

    k: Tensor
    v: Tensor
    tokens: Tensor
    hidden: Tensor

    @property
    def positions(self) -> int:
        return self.k.shape[2]

    @property
    def nbytes(self) -> int:
        return sum(x.nbytes for x in (self.k, self.v, self.tokens, self.hidden))


class Prefill:
    """The pass of one prompt; each `advance` is one chunk."""

    def __init__(self, lm: LanguageModel, config: ModelConfig, prompt: Prompt) -> None:
        self.lm, self.prompt = lm, prompt
        self.window = window_size(config.lm.context, config.attention_window)
        self.done = 0
        shape = config.lm
        like = lm.text_emb.weight
        size = (
            shape.num_layers,
            shape.num_heads,
            prompt.positions,
            shape.dim // shape.num_heads,
        )
        self.k = torch.zeros(size, device=like.device, dtype=like.dtype)
        self.v = torch.zeros_like(self.k)

    @torch.inference_mode()
    def advance(self) -> Prefix | None:
        """Run the next chunk; the prefix after the last one."""
        start = self.done
        stop = min(start + CHUNK, self.prompt.positions)
        x = self._run(self._embed(start, stop), start, stop)
        self.done = stop
        if stop < self.prompt.positions:
            return None
        hidden = self.lm.out_norm(x[:, -1:])[:, 0]
        column = self.prompt.tokens[:, stop].clone()  # a view would keep the whole prompt
        return Prefix(self.k, self.v, column.to(self.k.device), hidden)

    def _embed(self, start: int, stop: int) -> Tensor:
        """`[1, stop - start, D]`: ready embeddings where the prompt has them, then tokens."""
        ready = self.prompt.embeddings[start:stop].to(self.k)
        tokens = self.prompt.tokens[:, start + len(ready) : stop].to(self.k.device)
        return torch.cat([ready, self.lm.embed(tokens[None])[0]])[None]

    def _run(self, x: Tensor, start: int, stop: int) -> Tensor:
        """All layers over positions `start` to `stop - 1`, keeping their keys and values."""
        positions = torch.arange(stop, device=x.device)
        mask = window_mask(positions[start:], positions, self.window)
        config = self.lm.config
        size = config.dim // config.num_heads
        rope = rope_table(positions[start:], size, config.max_period)
        for index, module in enumerate(self.lm.transformer.layers):
            layer = cast(TemporalLayer, module)
            q, k, v = layer.project(x, rope)
            self.k[index, :, start:stop] = k[0]
            self.v[index, :, start:stop] = v[0]
            keys, values = self.k[index, None, :, :stop], self.v[index, None, :, :stop]
            x = layer.combine(x, q, keys, values, mask)
        return x


def prefill(lm: LanguageModel, config: ModelConfig, prompt: Prompt) -> Prefix:
    """All chunks at once."""
    work = Prefill(lm, config, prompt)
    while True:
        prefix = work.advance()
        if prefix is not None:
            return prefix
