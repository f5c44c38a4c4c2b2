"""What we write the reference loads, and what the reference saves we load: the same tensors."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from moshi.models import loaders
from moshi.models.lm import LMModel
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from model.checkpoint.load import load_checkpoint
from model.checkpoint.names import CONFIG_NAME, MODEL_NAME
from model.checkpoint.write import MIMI_NAME
from model.presets import TINY

pytestmark = pytest.mark.parity

CPU = torch.device("cpu")


def reference_lm() -> LMModel:
    kwargs = {**loaders._lm_kwargs, **dataclasses.asdict(TINY.lm)}
    return loaders.get_moshi_lm(None, lm_kwargs=kwargs, device="cpu", dtype=torch.float32)


def reference_mimi() -> nn.Module:
    dim, shape = TINY.mimi.seanet.dimension, TINY.mimi
    transformer = {**loaders._transformer_kwargs, **dataclasses.asdict(shape.transformer)}
    quantizer = {**loaders._quantizer_kwargs, **dataclasses.asdict(shape.quantizer)}
    config: dict[str, Any] = {
        **loaders._mimi_config,
        "seanet": {**loaders._seanet_kwargs, **dataclasses.asdict(shape.seanet)},
        "transformer": {**transformer, "input_dimension": dim, "output_dimensions": [dim]},
        "quantizer": {**quantizer, "input_dimension": dim, "output_dimension": dim},
    }
    mimi: nn.Module = loaders.get_mimi(None, config, device="cpu")
    return mimi


def respelt(module: nn.Module, stored: dict[str, Tensor]) -> dict[str, Tensor]:
    """The reference's own state dict after loading `stored`, every key of which must match."""
    missing, unexpected = module.load_state_dict(stored, strict=True)
    assert not missing and not unexpected
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def test_the_reference_loads_what_we_write_and_we_load_what_it_saves(
    tiny_checkpoint: Path, tmp_path: Path
) -> None:
    for name in (CONFIG_NAME, "tokenizer_spm.model", "voices"):
        (tmp_path / name).symlink_to(tiny_checkpoint / name)
    for module, file in ((reference_lm(), MODEL_NAME), (reference_mimi(), MIMI_NAME)):
        state = respelt(module, load_file(tiny_checkpoint / file))
        assert any("in_projs" in name for name in state), "the reference splits projections"
        save_file(state, tmp_path / file)
    ours = load_checkpoint(str(tiny_checkpoint), device=CPU, depformer_steps=16)
    theirs = load_checkpoint(str(tmp_path), device=CPU, depformer_steps=16)
    for one, other in ((ours.lm, theirs.lm), (ours.mimi, theirs.mimi)):
        again = other.state_dict()
        assert all(torch.equal(tensor, again[name]) for name, tensor in one.state_dict().items())


def test_config_json_holds_the_reference_s_own_names(tiny_checkpoint: Path) -> None:
    body = json.loads((tiny_checkpoint / CONFIG_NAME).read_text())
    assert body["lm"].keys() <= {*loaders._lm_kwargs, "max_period"}
    assert body["mimi"]["seanet"].keys() <= loaders._seanet_kwargs.keys()
    assert body["mimi"]["transformer"].keys() <= loaders._transformer_kwargs.keys()
    assert body["mimi"]["quantizer"].keys() <= loaders._quantizer_kwargs.keys()
