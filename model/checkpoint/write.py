"""Writes a checkpoint folder in the released layout: file names, key names, `config.json`.

The counterpart of `load`; used by the random presets, by training and by tests. Voices are added
by the enrolment path.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from model.checkpoint.config import CheckpointConfig
from model.checkpoint.names import CONFIG_NAME, MODEL_NAME, VOICES_FOLDER
from model.checkpoint.schema import Schema, lm_schema, mimi_schema
from model.config import ModelConfig

MIMI_NAME = "tokenizer-mimi.safetensors"
TOKENIZER_NAME = "tokenizer_spm.model"


def write_checkpoint_files(
    folder: Path,
    config: CheckpointConfig,
    lm: Mapping[str, Tensor],
    mimi: Mapping[str, Tensor],
    tokenizer: bytes,
) -> None:
    """Write all but the voices into `folder`. `lm` and `mimi` have the released key names.

    Tensors are stored in the dtype they have; their names and shapes must be the configuration's.
    """
    _write_tensors(folder / MODEL_NAME, lm, lm_schema(config.model.lm))
    _write_tensors(folder / MIMI_NAME, mimi, mimi_schema(config.model.mimi))
    (folder / TOKENIZER_NAME).write_bytes(tokenizer)
    (folder / VOICES_FOLDER).mkdir(exist_ok=True)
    text = json.dumps(config_as_json(config), indent=1)
    (folder / CONFIG_NAME).write_text(text + "\n", encoding="utf-8")


def _write_tensors(path: Path, tensors: Mapping[str, Tensor], schema: Schema) -> None:
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    wanted = {name: spec.shape for name, spec in schema.items()}
    assert shapes == wanted, f"{path.name}: these tensors are not the configuration's"
    body = {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}
    save_file(body, path, metadata={"format": "pt"})


def config_as_json(config: CheckpointConfig) -> dict[str, Any]:
    """The object that `config.parse_config` reads back to `config`."""
    model = config.model
    body: dict[str, Any] = {
        "model_type": "personaplex",
        "lm": dataclasses.asdict(model.lm),
        "mimi": _mimi_as_json(model),
        "silence_codes": model.silence_codes,
        "sine_codes": model.sine_codes,
        "attention_window": model.attention_window,
        "voice": config.voice,
        "persona": config.persona,
    }
    optional = {"licence": config.licence, "random": config.random, "dtype": config.dtype}
    return body | {key: value for key, value in optional.items() if value}


def _mimi_as_json(model: ModelConfig) -> dict[str, Any]:
    whole = dataclasses.asdict(model.mimi)
    return {key: whole[key] for key in ("seanet", "transformer", "quantizer")}


def as_dtype(state: Mapping[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    """`state` with its floating tensors in `dtype`, codebook statistics left as they are."""
    return {
        name: tensor if "._codebook." in name else tensor.to(dtype)
        for name, tensor in state.items()
    }
