"""Shapes of Mimi, the temporal transformer and the depformer, as frozen dataclasses.

Field names are the ones of the `moshi` package's keyword arguments, so that a `config.json` reads
the same here and there. Defaults are those of `nvidia/personaplex-7b-v1`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

AttentionWindow = Literal["moshi", "personaplex"]
"""`moshi` sees `context` positions once the ring is full, `personaplex` one fewer."""


def gated_hidden(dim: int, dim_feedforward: int) -> int:
    """Hidden width of a gated MLP (SwiGLU): 11264 for the 7B, 2816 for its depformer."""
    return 21 * dim // 8 if dim_feedforward == 4 * dim else 2 * dim_feedforward // 3


@dataclass(frozen=True)
class SeanetConfig:
    """The convolutional ends of Mimi; `ratios` are in decoder order, hop 960 samples."""

    dimension: int = 512
    n_filters: int = 64
    ratios: tuple[int, ...] = (8, 6, 5, 4)
    kernel_size: int = 7
    last_kernel_size: int = 3
    residual_kernel_size: int = 3
    compress: int = 2


@dataclass(frozen=True)
class CodecTransformerConfig:
    """Either of Mimi's two transformers, at 25 positions a second."""

    d_model: int = 512
    num_heads: int = 8
    num_layers: int = 8
    context: int = 250
    dim_feedforward: int = 2048
    max_period: float = 10_000.0


@dataclass(frozen=True)
class QuantizerConfig:
    """Split RVQ: one semantic codebook and `n_q - 1` acoustic ones."""

    dimension: int = 256
    n_q: int = 32
    bins: int = 2048


@dataclass(frozen=True)
class MimiConfig:
    """The codec: 24 kHz, 12.5 frames a second, `num_codebooks` of `quantizer.n_q` in use."""

    seanet: SeanetConfig = field(default_factory=SeanetConfig)
    transformer: CodecTransformerConfig = field(default_factory=CodecTransformerConfig)
    quantizer: QuantizerConfig = field(default_factory=QuantizerConfig)
    num_codebooks: int = 8


@dataclass(frozen=True)
class LMConfig:
    """Temporal transformer and depformer; 17 rows a position (text, 8 agent, 8 user)."""

    dim: int = 4096
    num_heads: int = 32
    num_layers: int = 32
    hidden_scale: float = 4.125
    context: int = 3000
    max_period: float = 10_000.0
    text_card: int = 32_000
    existing_text_padding_id: int = 3
    n_q: int = 16
    dep_q: int = 16
    card: int = 2048
    depformer_dim: int = 1024
    depformer_num_heads: int = 16
    depformer_num_layers: int = 6
    depformer_dim_feedforward: int = 4224
    delays: tuple[int, ...] = (0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1)

    @property
    def hidden(self) -> int:
        return gated_hidden(self.dim, int(self.hidden_scale * self.dim))

    @property
    def depformer_hidden(self) -> int:
        return gated_hidden(self.depformer_dim, self.depformer_dim_feedforward)


@dataclass(frozen=True)
class ModelConfig:
    """A whole checkpoint's shape and constants."""

    lm: LMConfig = field(default_factory=LMConfig)
    mimi: MimiConfig = field(default_factory=MimiConfig)
    silence_codes: tuple[int, ...] = (948, 243, 1178, 546, 1736, 1030, 1978, 2008)
    sine_codes: tuple[int, ...] = (430, 1268, 381, 1611, 1095, 1495, 56, 472)
    attention_window: AttentionWindow = "personaplex"
