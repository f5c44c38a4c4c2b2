"""Small models with random weights, complete: tokenizer, voice, constants and all.

`tiny` is for tests of transport and load, `small` for ratios against the reference (in memory
only), `demo` stands in for the bundled checkpoint until that is trained. Everything follows from
one seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from zlib import crc32

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
DEMO = ModelConfig(
    lm=LMConfig(
        dim=256,
        num_heads=4,
        num_layers=4,
        context=224,
        text_card=200,
        card=512,
        depformer_dim=128,
        depformer_num_heads=4,
        depformer_num_layers=2,
        depformer_dim_feedforward=528,
    ),
    mimi=MimiConfig(
        seanet=SeanetConfig(dimension=192, n_filters=16),
        transformer=CodecTransformerConfig(
            d_model=192, num_heads=4, num_layers=2, context=32, dim_feedforward=384
        ),
        quantizer=QuantizerConfig(dimension=64, n_q=8, bins=512),
    ),
    attention_window="moshi",
)
PRESETS: Mapping[str, ModelConfig] = {"tiny": TINY, "small": SMALL, "demo": DEMO}
WRITABLE = ("tiny", "demo")
"""Those whose vocabulary a tokenizer of our own can fill."""


def write_checkpoint(preset: str, folder: Path, seed: int = SEED) -> None:
    """Write the complete checkpoint `preset`, `tiny` or `demo`, into the existing `folder`."""
    assert preset in WRITABLE, f"preset must be one of {WRITABLE}, not {preset!r}"
    drawn = PRESETS[preset]
    weights = random_weights(drawn, seed)
    mimi = build_mimi(drawn, weights.mimi)
    config = measure_constants(drawn, mimi)
    described = CheckpointConfig(
        config, steps_from_file=False, voice=VOICE, persona=DEFAULT_PERSONA, random=True
    )
    tokenizer = train_tokenizer(TEXT.splitlines(), config.lm.text_card)
    write_checkpoint_files(folder, described, weights.lm, weights.mimi, tokenizer)
    enroller = Enroller(config, build_lm(config.lm, weights.lm), mimi)
    voice = enroller.enrol(VOICE, voice_like_sound(VOICE_FRAMES * FRAME_SAMPLES, seed))
    write_voice(folder / VOICES_FOLDER / VOICE, voice.embeddings, voice.cache)


def stand_in_name() -> str:
    """What the cached stand-in for the untrained demo is called: another shape, another name."""
    return f"demo-random-{crc32(repr((DEMO, SEED)).encode()):08x}"


def write_stand_in(folder: Path) -> None:
    """The random weights that `--model demo` means until the demo is trained."""
    write_checkpoint("demo", folder)
