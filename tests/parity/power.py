"""Mistakes that a port of PersonaPlex makes easily, as patches of the real modules.

Each `Mutation` is applied to our side alone; a parity suite that does not notice one proves
nothing. `part` names what it breaks, so that only that part need run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import pytest
import torch
from torch import Tensor

import model.layers
import model.lm_step
import model.prefill
import model.prepared
import model.prompt
import model.temporal
from model.config import LMConfig, ModelConfig
from model.lm import LanguageModel
from model.lm_slots import LMSlots
from model.mimi.conv import CausalConvTranspose1d, StreamingConv
from model.mimi.quantizer import StreamingQuantizer
from model.mimi.transformer import StreamingTransformer
from model.prompt import Prompt
from model.state import Carry, CarryLayout
from model.voices import Voice

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Mutation:
    name: str
    part: Literal["lm", "mimi", "bf16"]
    apply: Callable[[Patch], None]


def shorten_the_window(patch: Patch) -> None:
    """One too long cannot be: a ring goes round at the context."""

    def size(context: int, rule: str) -> int:
        return context - 1

    patch.setattr(model.lm_step, "window_size", size)
    patch.setattr(model.prefill, "window_size", size)


def swap_agent_and_user(patch: Patch) -> None:
    right = model.lm_step.embed_column

    def wrong(lm: model.prepared.PreparedLM, rows: list[Tensor]) -> Tensor:
        return right(lm, [rows[0], *rows[9:17], *rows[1:9]])

    patch.setattr(model.lm_step, "embed_column", wrong)


def forget_delays(patch: Patch) -> None:
    right = model.prompt.lay_out

    def wrong(frames: Tensor, config: LMConfig) -> Tensor:
        return right(frames, replace(config, delays=(0,) * 17))

    patch.setattr(model.prompt, "lay_out", wrong)


def hear_call_0(patch: Patch) -> None:
    """The first call of a prefill, which the reference discards, is kept."""
    right = model.prompt.lay_out

    def wrong(frames: Tensor, config: LMConfig) -> Tensor:
        return right(torch.cat([frames[:, :1], frames], dim=1), config)[:, 1:]

    patch.setattr(model.prompt, "lay_out", wrong)


def change_prompt(change: Callable[[Tensor, Voice], None], patch: Patch) -> None:
    right = model.prompt.build_prompt

    def wrong(voice: Voice, persona: list[int], config: ModelConfig) -> Prompt:
        prompt = right(voice, persona, config)
        change(prompt.tokens, voice)
        return prompt

    patch.setattr(model.prompt, "build_prompt", wrong)


def drop_acoustic_tail(tokens: Tensor, voice: Voice) -> None:
    delayed = [row for row in range(2, 17) if row != 9]
    tokens[delayed, -1] = 2048


def drop_voice_cache(tokens: Tensor, voice: Voice) -> None:
    """Silence where the voice's last frame and its acoustic tail belong."""
    tokens[:, voice.frames - 1] = tokens[:, voice.frames + 2]
    tokens[:, voice.frames] = tokens[:, voice.frames + 2]


def less_silence(patch: Patch) -> None:
    patch.setattr(model.prompt, "SILENCE_FRAMES", 5)


def text_first(patch: Patch) -> None:
    def wrong(self: LanguageModel, tokens: Tensor) -> Tensor:
        total = self.text_emb(tokens[:, 0])
        for row in range(16):
            total = total + self.emb[row](tokens[:, row + 1])
        out: Tensor = total
        return out

    patch.setattr(LanguageModel, "embed", wrong)


def text_first_in_the_step(patch: Patch) -> None:
    def wrong(lm: model.prepared.PreparedLM, rows: list[Tensor]) -> Tensor:
        total = lm.text_emb[rows[0]]
        for table, row in zip(lm.emb, rows[1:], strict=True):
            total = total + table[row]
        return total

    patch.setattr(model.lm_step, "embed_column", wrong)


def wrong_epsilon(patch: Patch) -> None:
    wrong = partial(model.layers.rms_norm, eps=1e-5)
    patch.setattr(model.prepared, "rms_norm", wrong)
    patch.setattr(model.layers, "rms_norm", wrong)


def half_split_rope(patch: Patch) -> None:
    def wrong(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        real, imaginary = x.chunk(2, dim=-1)
        return torch.cat([real * cos - imaginary * sin, real * sin + imaginary * cos], dim=-1)

    patch.setattr(model.lm_step, "apply_rope", wrong)
    patch.setattr(model.temporal, "apply_rope", wrong)


def wrapping_positions(patch: Patch) -> None:
    """Rope by the cell of the ring, as if a call began again at each round."""
    right = model.layers.rope_table

    def wrong(positions: Tensor, head_dim: int, max_period: float) -> tuple[Tensor, Tensor]:
        return right(positions % 40, head_dim, max_period)

    patch.setattr(model.lm_step, "rope_table", wrong)


def silu_on_the_wrong_half(patch: Patch) -> None:
    def wrong(x: Tensor) -> Tensor:
        value, gate = x.chunk(2, dim=-1)
        return torch.nn.functional.silu(gate) * value

    patch.setattr(model.lm_step, "silu_gate", wrong)
    patch.setattr(model.layers, "silu_gate", wrong)


def share_depformer_weights(patch: Patch) -> None:
    right = model.prepared._depformer

    def wrong(layer: Any, step: int, maker: Any) -> model.prepared.PreparedLayer:
        return right(layer, 0, maker)

    patch.setattr(model.prepared, "_depformer", wrong)


def depformer_without_history(patch: Patch) -> None:
    """Keys and values of earlier depformer steps are lost."""
    right = model.lm_step.DepformerLoop.step

    def wrong(
        self: model.lm_step.DepformerLoop, k: int, projected: Tensor, previous: Tensor
    ) -> Tensor:
        self.scratch.zero_()
        return right(self, k, projected, previous)

    patch.setattr(model.lm_step.DepformerLoop, "step", wrong)


def force_the_first_agent_code(patch: Patch) -> None:
    """Position M still begins with silence, as if the prefill decided nothing."""

    def wrong(self: LMSlots, slot: int, prefix: model.prefill.Prefix) -> Tensor:
        return torch.cat([torch.tensor([3, 948]), prefix.tokens[2:]])

    patch.setattr(LMSlots, "_first_column", wrong)


def count_bias_twice(patch: Patch) -> None:
    right = CausalConvTranspose1d.prepare

    def wrong(self: CausalConvTranspose1d, layout: CarryLayout) -> StreamingConv:
        prepared = right(self, layout)
        prepared.bias *= 2
        return prepared

    patch.setattr(CausalConvTranspose1d, "prepare", wrong)


def pad_the_start_with_zeros(patch: Patch) -> None:
    right = StreamingConv.__call__

    def wrong(self: StreamingConv, x: Tensor, carry: Carry, first: Tensor | None = None) -> Tensor:
        return right(self, x, carry)

    patch.setattr(StreamingConv, "__call__", wrong)


def lose_the_tails(patch: Patch) -> None:
    """Convolutions start every frame anew."""

    def wrong(self: StreamingConv, x: Tensor, carry: Carry, first: Tensor | None) -> Tensor:
        return torch.nn.functional.pad(x, (0, 0, self.pad, 0))

    patch.setattr(StreamingConv, "_extend", wrong)


def subtract_the_semantic_code(patch: Patch) -> None:
    """The acoustic chain quantises what the semantic codebook left over."""

    def wrong(self: StreamingQuantizer, latent: Tensor) -> Tensor:
        semantic, residual = torch.mm(latent, self.project).chunk(2, 1)
        codes = [self._nearest(semantic, 0)]
        residual = residual - self.tables[0][codes[0]]
        for level in range(1, len(self.tables)):
            codes.append(self._nearest(residual, level))
            residual = residual - self.tables[level][codes[-1]]
        return torch.stack(codes, 1)

    patch.setattr(StreamingQuantizer, "encode", wrong)


def codec_window_by_one(patch: Patch) -> None:
    right = StreamingTransformer.__init__

    def wrong(self: StreamingTransformer, module: Any) -> None:
        right(self, module)
        self.window -= 1

    patch.setattr(StreamingTransformer, "__init__", wrong)


MUTATIONS = [
    Mutation("window one too short", "lm", shorten_the_window),
    Mutation("agent and user rows swapped", "lm", swap_agent_and_user),
    Mutation("no acoustic delay", "lm", forget_delays),
    Mutation("call 0 heard", "lm", hear_call_0),
    Mutation("no acoustic tail", "lm", partial(change_prompt, drop_acoustic_tail)),
    Mutation("voice cache dropped", "lm", partial(change_prompt, drop_voice_cache)),
    Mutation("five frames of silence", "lm", less_silence),
    Mutation("norm epsilon 1e-5", "lm", wrong_epsilon),
    Mutation("half-split rope", "lm", half_split_rope),
    Mutation("positions that wrap", "lm", wrapping_positions),
    Mutation("SiLU on the wrong half", "lm", silu_on_the_wrong_half),
    Mutation("depformer weights shared", "lm", share_depformer_weights),
    Mutation("depformer without history", "lm", depformer_without_history),
    Mutation("first agent code forced", "lm", force_the_first_agent_code),
    Mutation("text embedded first", "bf16", text_first),
    Mutation("text embedded first in the step", "bf16", text_first_in_the_step),
    Mutation("bias counted twice", "mimi", count_bias_twice),
    Mutation("replicate padding missing", "mimi", pad_the_start_with_zeros),
    Mutation("tails lost", "mimi", lose_the_tails),
    Mutation("semantic residual", "mimi", subtract_the_semantic_code),
    Mutation("codec window off by one", "mimi", codec_window_by_one),
]
