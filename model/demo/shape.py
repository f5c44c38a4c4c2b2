"""The demo's shape: PersonaPlex's architecture, small enough for 26 MB and one CPU core."""

from __future__ import annotations

from model.config import (
    AttentionWindow,
    CodecTransformerConfig,
    LMConfig,
    MimiConfig,
    QuantizerConfig,
    SeanetConfig,
)

BINS = 512
ATTENTION_WINDOW: AttentionWindow = "moshi"

MIMI = MimiConfig(
    seanet=SeanetConfig(dimension=192, n_filters=16),
    transformer=CodecTransformerConfig(
        d_model=192, num_heads=4, num_layers=2, context=32, dim_feedforward=512
    ),
    quantizer=QuantizerConfig(dimension=64, n_q=8, bins=BINS),
)


def lm_config(text_card: int) -> LMConfig:
    """The language model over a tokenizer of `text_card` pieces."""
    return LMConfig(
        dim=256,
        num_heads=4,
        num_layers=4,
        hidden_scale=3.0,
        context=224,
        text_card=text_card,
        dep_q=8,
        card=BINS,
        depformer_dim=128,
        depformer_num_heads=4,
        depformer_num_layers=1,
        depformer_dim_feedforward=528,
    )
