"""The reference codec: a `moshi` Mimi built from our configuration, weights carried both ways."""

from __future__ import annotations

from typing import Any

import torch
from moshi.models import MimiModel, loaders
from torch import Tensor

from model.config import MimiConfig
from model.mimi import Mimi


def moshi_mimi(config: MimiConfig, weights: Mimi | None = None) -> MimiModel:
    """The reference, with our weights or its own random ones."""
    reference = loaders.get_mimi(None, _arguments(config), num_codebooks=config.num_codebooks)
    if weights is not None:
        reference.load_state_dict(weights.state_dict())
    return reference.eval()


def released_weights(reference: MimiModel) -> dict[str, Tensor]:
    """The reference's weights under the names of the released file."""
    renamed = (("in_projs.0.weight", "in_proj_weight"), ("out_projs.0.weight", "out_proj.weight"))
    weights = {}
    for name, tensor in reference.state_dict().items():
        for theirs, released in renamed:
            name = name.replace(theirs, released)
        weights[name] = tensor
    return weights


def reset_rows(reference: MimiModel, rows: list[int], total: int) -> None:
    mask = torch.zeros(total, dtype=torch.bool)
    mask[rows] = True
    reference.reset_streaming(mask)


def _arguments(config: MimiConfig) -> dict[str, Any]:
    dim = config.seanet.dimension
    seanet = dict(loaders._seanet_kwargs, dimension=dim, n_filters=config.seanet.n_filters)
    transformer = dict(loaders._transformer_kwargs, input_dimension=dim, output_dimensions=[dim])
    for name in ("d_model", "num_heads", "num_layers", "context", "dim_feedforward"):
        transformer[name] = getattr(config.transformer, name)
    quantizer = dict(
        loaders._quantizer_kwargs,
        dimension=config.quantizer.dimension,
        n_q=config.quantizer.n_q,
        bins=config.quantizer.bins,
        input_dimension=dim,
        output_dimension=dim,
    )
    return {
        "sample_rate": 24_000,
        "channels": 1,
        "frame_rate": 12.5,
        "seanet": seanet,
        "transformer": transformer,
        "quantizer": quantizer,
    }
