"""Which tensors a checkpoint holds: names and shapes, worked out from the configuration.

Names are the released files' (fused projections). Knows nothing of files or modules; the loader,
the random presets and the tests all read it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from model.config import CodecTransformerConfig, LMConfig, MimiConfig


@dataclass(frozen=True)
class TensorSpec:
    """What one tensor must look like, and the other forms that a file may give it in."""

    shape: tuple[int, ...]
    aliases: tuple[str, ...] = ()
    """Other names of the same tensor."""
    parts: tuple[str, ...] = ()
    """Names of the pieces of equal size that it may be split into along its first dimension."""


Schema = dict[str, TensorSpec]

CODEBOOK_ALIASES = {
    "_initialized": ("inited",),
    "cluster_usage": ("cluster_size",),
    "embedding_sum": ("embed_avg", "embed_sum"),
}
"""Older names of the codebook statistics."""


def lm_schema(config: LMConfig) -> Schema:
    """The tensors of `model.safetensors`: 475 for PersonaPlex 7B, 355 for an 8-step Moshi."""
    schema = dict(_embeddings(config))
    schema["out_norm.alpha"] = TensorSpec((1, 1, config.dim))
    for layer in range(config.num_layers):
        schema.update(_temporal_layer(config, f"transformer.layers.{layer}"))
    for layer in range(config.depformer_num_layers):
        schema.update(_depformer_layer(config, f"depformer.layers.{layer}"))
    return schema


def _embeddings(config: LMConfig) -> Iterator[tuple[str, TensorSpec]]:
    dim, inner = config.dim, config.depformer_dim
    audio, text = config.card + 1, config.text_card + 1
    for row in range(config.n_q):
        yield f"emb.{row}.weight", TensorSpec((audio, dim))
    yield "text_emb.weight", TensorSpec((text, dim))
    yield "text_linear.weight", TensorSpec((config.text_card, dim))
    yield "depformer_text_emb.weight", TensorSpec((text, inner))
    for step in range(config.dep_q):
        yield f"depformer_in.{step}.weight", TensorSpec((inner, dim))
        yield f"linears.{step}.weight", TensorSpec((config.card, inner))
    for step in range(config.dep_q - 1):
        yield f"depformer_emb.{step}.weight", TensorSpec((audio, inner))


def _attention(prefix: str, dim: int, steps: int = 1) -> Schema:
    """Fused projections, whose blocks the `moshi` package's own state dict splits by step."""
    ways = range(steps)
    return {
        f"{prefix}.in_proj_weight": TensorSpec(
            (steps * 3 * dim, dim),
            aliases=(f"{prefix}.in_proj.weight",),
            parts=tuple(f"{prefix}.in_projs.{way}.weight" for way in ways),
        ),
        f"{prefix}.out_proj.weight": TensorSpec(
            (steps * dim, dim), parts=tuple(f"{prefix}.out_projs.{way}.weight" for way in ways)
        ),
    }


def _gating(prefix: str, dim: int, hidden: int) -> Schema:
    return {
        f"{prefix}.linear_in.weight": TensorSpec((2 * hidden, dim)),
        f"{prefix}.linear_out.weight": TensorSpec((dim, hidden)),
    }


def _rms_norms(prefix: str, dim: int) -> Schema:
    return {f"{prefix}.{norm}.alpha": TensorSpec((1, 1, dim)) for norm in ("norm1", "norm2")}


def _temporal_layer(config: LMConfig, prefix: str) -> Schema:
    return (
        _attention(f"{prefix}.self_attn", config.dim)
        | _rms_norms(prefix, config.dim)
        | _gating(f"{prefix}.gating", config.dim, config.hidden)
    )


def _depformer_layer(config: LMConfig, prefix: str) -> Schema:
    dim = config.depformer_dim
    schema = _attention(f"{prefix}.self_attn", dim, config.dep_q) | _rms_norms(prefix, dim)
    for step in range(config.dep_q):
        schema |= _gating(f"{prefix}.gating.{step}", dim, config.depformer_hidden)
    return schema


def mimi_schema(config: MimiConfig) -> Schema:
    """The tensors of the Mimi file, 318 for the released codec."""
    dim = config.seanet.dimension
    schema = _seanet_encoder(config) | _seanet_decoder(config)
    for side in ("encoder", "decoder"):
        for layer in range(config.transformer.num_layers):
            prefix = f"{side}_transformer.transformer.layers.{layer}"
            schema |= _codec_layer(config.transformer, prefix)
    schema["downsample.conv.conv.conv.weight"] = TensorSpec((dim, dim, 4))
    schema["upsample.convtr.convtr.convtr.weight"] = TensorSpec((dim, 1, 4))
    return schema | _quantizer(config)


def _conv(name: str, *weight: int, out: int) -> Schema:
    return {f"{name}.weight": TensorSpec(weight), f"{name}.bias": TensorSpec((out,))}


def _residual(prefix: str, channels: int, config: MimiConfig) -> Schema:
    narrow = channels // config.seanet.compress
    kernel = config.seanet.residual_kernel_size
    return _conv(f"{prefix}.block.1.conv.conv", narrow, channels, kernel, out=narrow) | _conv(
        f"{prefix}.block.3.conv.conv", channels, narrow, 1, out=channels
    )


def _seanet_encoder(config: MimiConfig) -> Schema:
    """Places in the sequence count the ELUs between the convolutions."""
    seanet = config.seanet
    channels, place = seanet.n_filters, 1
    schema = _conv("encoder.model.0.conv.conv", channels, 1, seanet.kernel_size, out=channels)
    for ratio in reversed(seanet.ratios):
        schema |= _residual(f"encoder.model.{place}", channels, config)
        name = f"encoder.model.{place + 2}.conv.conv"
        schema |= _conv(name, 2 * channels, channels, 2 * ratio, out=2 * channels)
        channels, place = 2 * channels, place + 3
    name = f"encoder.model.{place + 1}.conv.conv"
    last = seanet.last_kernel_size
    return schema | _conv(name, seanet.dimension, channels, last, out=seanet.dimension)


def _seanet_decoder(config: MimiConfig) -> Schema:
    """As the encoder, mirrored; a transposed convolution's weight is `[in, out, kernel]`."""
    seanet = config.seanet
    channels, place = seanet.n_filters * 2 ** len(seanet.ratios), 1
    first = "decoder.model.0.conv.conv"
    schema = _conv(first, channels, seanet.dimension, seanet.kernel_size, out=channels)
    for ratio in seanet.ratios:
        narrow = channels // 2
        name = f"decoder.model.{place + 1}.convtr.convtr"
        schema |= _conv(name, channels, narrow, 2 * ratio, out=narrow)
        schema |= _residual(f"decoder.model.{place + 2}", narrow, config)
        channels, place = narrow, place + 3
    name = f"decoder.model.{place + 1}.conv.conv"
    return schema | _conv(name, 1, channels, seanet.last_kernel_size, out=1)


def _codec_layer(config: CodecTransformerConfig, prefix: str) -> Schema:
    dim, wide = config.d_model, config.dim_feedforward
    schema = _attention(f"{prefix}.self_attn", dim)
    for norm in ("norm1", "norm2"):
        schema |= _conv(f"{prefix}.{norm}", dim, out=dim)
    schema[f"{prefix}.linear1.weight"] = TensorSpec((wide, dim))
    schema[f"{prefix}.linear2.weight"] = TensorSpec((dim, wide))
    for scale in ("layer_scale_1", "layer_scale_2"):
        schema[f"{prefix}.{scale}.scale"] = TensorSpec((dim,))
    return schema


def _quantizer(config: MimiConfig) -> Schema:
    latent, quantizer = config.seanet.dimension, config.quantizer
    schema: Schema = {}
    for branch, books in (("rvq_first", 1), ("rvq_rest", quantizer.n_q - 1)):
        prefix = f"quantizer.{branch}"
        schema[f"{prefix}.input_proj.weight"] = TensorSpec((quantizer.dimension, latent, 1))
        schema[f"{prefix}.output_proj.weight"] = TensorSpec((latent, quantizer.dimension, 1))
        for book in range(books):
            book_prefix = f"{prefix}.vq.layers.{book}._codebook"
            schema |= _codebook(book_prefix, quantizer.bins, quantizer.dimension)
    return schema


def _codebook(prefix: str, bins: int, dimension: int) -> Schema:
    shapes = {
        "_initialized": (1,),
        "cluster_usage": (bins,),
        "embedding_sum": (bins, dimension),
    }
    return {
        f"{prefix}.{key}": TensorSpec(
            shape, aliases=tuple(f"{prefix}.{old}" for old in CODEBOOK_ALIASES[key])
        )
        for key, shape in shapes.items()
    }
