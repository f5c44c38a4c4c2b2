"""Small models with random weights, for tests and benchmarks; everything follows from one seed.

`tiny` is for transport and load, and is written as a complete checkpoint: tokenizer, voice,
constants and all. `small` is for ratios against the reference, in memory only.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from model.checkpoint.config import DEFAULT_PERSONA, CheckpointConfig
from model.checkpoint.names import VOICES_FOLDER
from model.checkpoint.write import write_checkpoint_files
from model.config import (
    CodecTransformerConfig,
    LMConfig,
    MimiConfig,
    ModelConfig,
    QuantizerConfig,
    SeanetConfig,
)
from model.core import FRAME_SAMPLES
from model.enrol import Enroller, measure_constants
from model.random_weights import build_lm, build_mimi, random_weights, voice_like_sound
from model.vocabulary import TEXT, train_tokenizer
from model.voices import write_voice

SEED = 20_260
VOICE, VOICE_FRAMES = "RAND0.pt", 25

TINY = ModelConfig(
    lm=LMConfig(
        dim=64,
        num_heads=4,
        num_layers=2,
        context=300,
        text_card=200,
        depformer_dim=32,
        depformer_num_heads=2,
        depformer_num_layers=2,
        depformer_dim_feedforward=132,
    ),
    mimi=MimiConfig(
        seanet=SeanetConfig(dimension=64, n_filters=8),
        transformer=CodecTransformerConfig(
            d_model=64, num_heads=4, num_layers=2, context=20, dim_feedforward=128
        ),
        quantizer=QuantizerConfig(dimension=32, n_q=12, bins=2048),
    ),
    attention_window="moshi",
)
SMALL = ModelConfig(
    lm=LMConfig(
        dim=512,
        num_heads=8,
        num_layers=8,
        context=500,
        depformer_dim=256,
        depformer_num_heads=4,
        depformer_num_layers=4,
        depformer_dim_feedforward=1056,
    ),
    attention_window="moshi",
)
PRESETS: Mapping[str, ModelConfig] = {"tiny": TINY, "small": SMALL}


def write_tiny_checkpoint(folder: Path, seed: int = SEED) -> None:
    """Write `tiny` as a complete checkpoint into the existing `folder`."""
    weights = random_weights(TINY, seed)
    mimi = build_mimi(TINY, weights.mimi)
    config = measure_constants(TINY, mimi)
    described = CheckpointConfig(
        config, steps_from_file=False, voice=VOICE, persona=DEFAULT_PERSONA, random=True
    )
    tokenizer = train_tokenizer(TEXT.splitlines(), config.lm.text_card)
    write_checkpoint_files(folder, described, weights.lm, weights.mimi, tokenizer)
    enroller = Enroller(config, build_lm(config.lm, weights.lm), mimi)
    voice = enroller.enrol(VOICE, voice_like_sound(VOICE_FRAMES * FRAME_SAMPLES, seed))
    write_voice(folder / VOICES_FOLDER / VOICE, voice.embeddings, voice.cache)
