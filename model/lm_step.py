"""One position of the language model for a fixed number of rows, over prepared weights.

Kyutai's schedule: the call that brings user frame p runs position p, decides text and agent codes
of position p + 1, and emits frame p. Nothing here synchronises with the host, allocates by value
or changes shape. Knows nothing of audio, prompts or scheduling; commits nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from model.config import ModelConfig
from model.core import AGENT_CODEBOOKS
from model.layers import apply_rope, attend_one, rope_table, silu_gate, window_size
from model.lm_state import USER_ROW, LMState, initial_column
from model.prepared import PreparedLayer, PreparedLM
from model.sampling import Choosers
from model.state import KVRing, bits


def embed_column(lm: PreparedLM, rows: Sequence[Tensor]) -> Tensor:
    """Sum the embeddings of 17 rows, `[B]` each, to `[B, D]`: codebooks 0 to 15, then the text."""
    total = F.embedding(rows[1], lm.emb[0])
    for table, row in zip(lm.emb[1:], rows[2:], strict=True):
        total = total + F.embedding(row, table)
    return total + F.embedding(rows[0], lm.text_emb)


def ring_mask(position: Tensor, period: int, window: int, cells: int) -> Tensor:
    """Additive mask `[B, 1, 1, cells]` for queries at `position` `[B]`, already written.

    Position p lies in cell p modulo `period`; the cells from there on pad the ring and stay dark.
    """
    cell = torch.arange(cells, device=position.device)
    age = (position[:, None] - cell) % period
    visible = (age < torch.clamp(position + 1, max=window)[:, None]) & (cell < period)
    return torch.where(visible, 0.0, -torch.inf)[:, None, None]


def temporal_step(
    lm: PreparedLM, x: Tensor, position: Tensor, ring: KVRing, window: int, cells: int
) -> Tensor:
    """Run `position` `[B]` of each row through all layers; `x` and the result are `[B, D]`.

    Writes keys and values into the ring's cell of that position, and attends to its first `cells`.
    """
    heads, size = lm.config.num_heads, lm.config.dim // lm.config.num_heads
    period = lm.config.context
    cos, sin = rope_table(position[:, None, None], size, lm.config.max_period)
    mask = ring_mask(position, period, window, cells).to(x.dtype)
    first_cell = torch.arange(len(x) * heads, device=x.device).view(-1, heads) * ring.capacity
    target = (first_cell + (position % period)[:, None]).flatten()
    for index, layer in enumerate(lm.layers):
        qkv = layer.qkv(x).view(-1, 3, heads, size)
        q, k = apply_rope(qkv[:, :2], cos, sin).unbind(1)
        for cache, new in ((ring.k[index], k), (ring.v[index], qkv[:, 2])):
            kept = new.reshape(-1, size).to(cache.dtype)
            bits(cache).view(-1, size).index_copy_(0, target, bits(kept))
        keys, values = (cache[index, :, :, :cells].to(x.dtype) for cache in (ring.k, ring.v))
        attended = attend_one(q[:, :, None], keys, values, mask)
        x = x + layer.out(attended.reshape(len(x), -1))
        x = x + layer.down(silu_gate(layer.up(x)))
    return lm.out_norm(x)


DEPFORMER_CELLS = 16
"""Steps of the released model, which the reference attends over whatever the step."""


@dataclass(frozen=True)
class DepformerViews:
    """One layer's part of the scratch at one step: where to write, what to attend with."""

    target: Tensor
    """`[B, 3D]`"""
    query: Tensor
    """`[B, H, 1, head_dim]`"""
    keys: Tensor
    """`[B, H, K, head_dim]`"""
    values: Tensor
    mask: Tensor
    """`[1, 1, 1, K]`, additive."""


class DepformerLoop:
    """The depformer's steps over one position; its keys and values live for that position only.

    `scratch`, `[layers, K, B, 3D]`, takes each step's fused projection whole. All views of it are
    made once, so that the loop has few operations beside its products. K is padded, and later steps
    are masked rather than cut off: in bf16 the length of a sum is part of its result.
    """

    def __init__(self, lm: PreparedLM, rows: int) -> None:
        self.lm = lm
        config, like = lm.config, lm.depformer_text_emb
        cells = -(-lm.steps // DEPFORMER_CELLS) * DEPFORMER_CELLS
        shape = (config.depformer_num_layers, cells, rows, 3 * config.depformer_dim)
        self.scratch = torch.zeros(shape, device=like.device, dtype=like.dtype)
        split = self.scratch.view(*shape[:3], 3, config.depformer_num_heads, -1)
        self.queries, self.keys, self.values = split.permute(3, 0, 2, 4, 1, 5).unbind(0)
        later = torch.ones(cells, cells, dtype=torch.bool, device=like.device).triu(1)
        self.masks = torch.zeros_like(later, dtype=like.dtype).masked_fill(later, -torch.inf)
        self.views = [[self._views(index, k) for index in range(shape[0])] for k in range(lm.steps)]

    def _views(self, index: int, k: int) -> DepformerViews:
        return DepformerViews(
            target=self.scratch[index, k],
            query=self.queries[index, :, :, k : k + 1],
            keys=self.keys[index],
            values=self.values[index],
            mask=self.masks[k, None, None, None],
        )

    def step(self, k: int, projected: Tensor, previous: Tensor) -> Tensor:
        """Logits `[B, card]` of codebook `k`.

        `projected` is `depformer_in` of this step, `previous` `[B]` the text token for k = 0, else
        the token of codebook k - 1.
        """
        table = self.lm.depformer_emb[k - 1] if k else self.lm.depformer_text_emb
        x = projected + F.embedding(previous, table)
        for layer, views in zip(self.lm.depformer[k], self.views[k], strict=True):
            x = self._layer(layer, x, views)
        return self.lm.heads[k](x)

    def _layer(self, layer: PreparedLayer, x: Tensor, views: DepformerViews) -> Tensor:
        views.target.copy_(layer.qkv(x))
        attended = attend_one(views.query, views.keys, views.values, views.mask)
        x = x + layer.out(attended.reshape(len(x), -1))
        return x + layer.down(silu_gate(layer.up(x)))

    def run(self, hidden: Tensor, text: Tensor, choose: Choosers) -> tuple[Tensor, Tensor]:
        """All steps after `hidden` `[B, D]` and `text` `[B]`: codes `[B, K]`, the last logits."""
        self.scratch.zero_()  # what a mask hides must be finite
        previous, codes = text, []
        for k, projected in enumerate(self.lm.depformer_in(hidden)):
            logits = self.step(k, projected, previous)
            previous = choose.audio(logits, k)
            codes.append(previous)
        return torch.stack(codes, dim=1), logits


@dataclass(frozen=True)
class LMOutput:
    """One step of all rows, before the commit."""

    position: Tensor
    """The position that was stepped, `[B]`."""
    text: Tensor
    """Text tokens of the emitted frame, `[B]`."""
    codes: Tensor
    """Agent codes of the emitted frame, `[B, 8]`, always within the codec's tables."""
    hidden: Tensor
    """Normed output of the temporal transformer, `[B, D]`."""
    text_logits: Tensor
    decided: Tensor
    """Decided for the next position: the text, then every depformer step, `[B, 1 + K]`."""
    finite: Tensor
    """False where anything was not finite, bool `[B]`."""


class LMStep:
    """The step of `rows` rows; the number of depformer steps is the prepared model's."""

    def __init__(self, lm: PreparedLM, config: ModelConfig, rows: int) -> None:
        device = lm.text_emb.device
        self.lm, self.config = lm, config
        self.window = window_size(config.lm.context, config.attention_window)
        self.depformer = DepformerLoop(lm, rows)
        self.initial = torch.tensor(initial_column(config.lm), device=device)
        self.delayed = torch.tensor(config.lm.delays, device=device) > 0
        self.silence = torch.tensor(config.silence_codes, device=device)

    def __call__(
        self, state: LMState, user: Tensor, held: Tensor, choose: Choosers, cells: int
    ) -> LMOutput:
        """Step with user codes `[B, 8]`; rows where `held` `[B]` is true are made to fall silent.

        Stages tokens and position in `state` and writes its ring; commits nothing.
        """
        lm, tokens, position = self.lm, state.tokens, state.position
        start = position == 0
        column = list(tokens.unbind(1))
        column[USER_ROW] = torch.where(start, self.initial[USER_ROW], user[:, 0])
        x = embed_column(lm, column)
        hidden = temporal_step(lm, x, position, state.ring, self.window, cells)
        text_logits = lm.text_head(hidden)
        text = choose.text(text_logits)
        text = torch.where(held, self.config.lm.existing_text_padding_id, text)
        codes, last = self.depformer.run(hidden, text, choose)
        following = self._following(start, held, text, codes, user)
        state.stage(following, position + 1)
        emitted = torch.cat([tokens[:, 1:2], following[:, 2 : 1 + AGENT_CODEBOOKS]], dim=1)
        return LMOutput(
            position=position.clone(),
            text=tokens[:, 0].clone(),
            codes=emitted.clamp(max=self.config.lm.card - 1),
            hidden=hidden,
            text_logits=text_logits,
            decided=torch.cat([text[:, None], codes], dim=1),
            finite=torch.isfinite(hidden.float().sum(-1) + last.float().sum(-1)),
        )

    def _following(
        self, start: Tensor, held: Tensor, text: Tensor, codes: Tensor, user: Tensor
    ) -> Tensor:
        """The next column `[B, 17]`; the delayed rows of position 1 are still initial."""
        agent = torch.where(held[:, None], self.silence, codes[:, :AGENT_CODEBOOKS])
        column = torch.cat([text[:, None], agent, user], dim=1)
        return torch.where(start[:, None] & self.delayed, self.initial, column)
