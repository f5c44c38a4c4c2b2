"""What loading accepts besides the plain form, and what it makes of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from model.checkpoint.errors import ConfigMismatch, MissingTensor
from model.checkpoint.load import describe, load_checkpoint
from model.checkpoint.names import MODEL_NAME
from model.checkpoint.schema import lm_schema, mimi_schema
from model.checkpoint.write import MIMI_NAME, as_dtype
from model.presets import TINY

pytestmark = pytest.mark.unit

CPU = torch.device("cpu")
Tensors = dict[str, Tensor]
EditTensors = Callable[..., Path]


def test_every_tensor_arrives_unchanged(tiny_checkpoint: Path) -> None:
    loaded = load_checkpoint(str(tiny_checkpoint), device=CPU, depformer_steps=16)
    for module, file in ((loaded.lm, MODEL_NAME), (loaded.mimi, MIMI_NAME)):
        stored = load_file(tiny_checkpoint / file)
        state = module.state_dict()
        assert state.keys() == stored.keys()
        assert all(torch.equal(state[name], stored[name]) for name in stored)
        assert not any(parameter.requires_grad for parameter in module.parameters())
        assert not module.training


def test_eight_steps_are_the_first_half_of_sixteen(tiny_checkpoint: Path) -> None:
    eight = load_checkpoint(str(tiny_checkpoint), device=CPU).lm.state_dict()
    stored = load_file(tiny_checkpoint / MODEL_NAME)
    assert "linears.7.weight" in eight and "linears.8.weight" not in eight
    assert "depformer_emb.6.weight" in eight and "depformer_emb.7.weight" not in eight
    for name, tensor in eight.items():
        assert torch.equal(tensor, stored[name][: tensor.shape[0]])


def test_stored_weights_stay_in_the_mapped_file(tiny_checkpoint: Path) -> None:
    loaded = load_checkpoint(str(tiny_checkpoint), device=CPU, depformer_steps=16)
    ranges = [line.split()[0] for line in open("/proc/self/maps") if MODEL_NAME in line]
    bounds = [tuple(int(end, 16) for end in line.split("-")) for line in ranges]
    for parameter in loaded.lm.parameters():
        assert any(low <= parameter.data_ptr() < high for low, high in bounds)


def without_second_half(tensors: Tensors) -> None:
    """What a plain Moshi file holds: eight depformer steps."""
    for name in list(tensors):
        step = name.split(".")[-2] if "gating" not in name else name.split(".")[-3]
        is_emb = name.startswith("depformer_emb.")
        if "self_attn" in name and name.startswith("depformer"):
            tensors[name] = tensors[name][: len(tensors[name]) // 2].clone()
        elif name.startswith(("linears.", "depformer_in.", "depformer_emb.", "depformer.")):
            if step.isdigit() and int(step) >= (7 if is_emb else 8):
                del tensors[name]


def test_a_file_of_eight_steps_loads_where_config_does_not_state_them(
    edit_tensors: EditTensors,
    edit_config: Callable[..., Path],
) -> None:
    edit_tensors(without_second_half)
    folder = edit_config(lambda body: body["lm"].pop("dep_q"))
    assert describe(str(folder)).config.lm.dep_q == 8
    load_checkpoint(str(folder), device=CPU)
    with pytest.raises(ConfigMismatch, match="has 8 depformer steps; 16 were asked for"):
        load_checkpoint(str(folder), device=CPU, depformer_steps=16)


def test_a_file_of_eight_steps_is_refused_where_config_states_sixteen(
    edit_tensors: EditTensors,
) -> None:
    folder = edit_tensors(without_second_half)
    with pytest.raises(MissingTensor):
        load_checkpoint(str(folder), device=CPU)


@pytest.mark.parametrize("file", [MODEL_NAME, MIMI_NAME])
def test_split_projections_and_old_names_load_as_fused_ones(
    edit_tensors: EditTensors, tiny_checkpoint: Path, file: str
) -> None:
    schema = lm_schema(TINY.lm) if file == MODEL_NAME else mimi_schema(TINY.mimi)

    def respell(tensors: Tensors) -> None:
        for name, spec in schema.items():
            if spec.parts:
                whole = tensors.pop(name)
                pieces = [piece.clone() for piece in whole.chunk(len(spec.parts))]
                tensors.update(zip(spec.parts, pieces, strict=True))
            elif spec.aliases:
                tensors[spec.aliases[-1]] = tensors.pop(name)

    folder = edit_tensors(respell, file)
    plain = load_checkpoint(str(tiny_checkpoint), device=CPU, depformer_steps=16)
    respelt = load_checkpoint(str(folder), device=CPU, depformer_steps=16)
    for one, other in ((plain.lm, respelt.lm), (plain.mimi, respelt.mimi)):
        state = other.state_dict()
        assert all(torch.equal(tensor, state[name]) for name, tensor in one.state_dict().items())


def test_one_lost_piece_of_a_split_projection_is_named(edit_tensors: EditTensors) -> None:
    name = "depformer.layers.0.self_attn.out_proj.weight"

    def respell(tensors: Tensors) -> None:
        pieces = tensors.pop(name).chunk(16)
        parts = lm_schema(TINY.lm)[name].parts
        tensors.update({part: piece.clone() for part, piece in zip(parts, pieces, strict=True)})
        del tensors[parts[5]]

    with pytest.raises(MissingTensor, match=r"out_projs\.5\.weight"):
        load_checkpoint(str(edit_tensors(respell)), device=CPU)


def in_bfloat16(tensors: Tensors) -> None:
    tensors.update(as_dtype(tensors, torch.bfloat16))


def test_the_language_model_keeps_its_dtype_unless_asked_and_mimi_is_float32(
    edit_tensors: EditTensors,
) -> None:
    folder = edit_tensors(in_bfloat16)
    edit_tensors(in_bfloat16, MIMI_NAME)
    info = describe(str(folder))
    assert info.stored_dtype == info.dtype == torch.bfloat16
    stored = load_checkpoint(str(folder), device=CPU)
    assert {p.dtype for p in stored.lm.parameters()} == {torch.bfloat16}
    assert {p.dtype for p in stored.mimi.parameters()} == {torch.float32}
    wide = load_checkpoint(str(folder), device=CPU, dtype=torch.float32)
    assert {p.dtype for p in wide.lm.parameters()} == {torch.float32}


def test_config_may_name_the_dtype_to_compute_in(
    edit_tensors: EditTensors, edit_config: Callable[..., Path]
) -> None:
    edit_tensors(in_bfloat16)
    folder = edit_config(lambda body: body.update(dtype="float32"))
    info = describe(str(folder))
    assert (info.stored_dtype, info.dtype) == (torch.bfloat16, torch.float32)
    loaded = load_checkpoint(str(folder), device=CPU)
    assert {p.dtype for p in loaded.lm.parameters()} == {torch.float32}


def test_weight_bytes_are_those_of_the_loaded_modules(tiny_checkpoint: Path) -> None:
    loaded = load_checkpoint(str(tiny_checkpoint), device=CPU)
    tensors = [*loaded.lm.state_dict().values(), *loaded.mimi.state_dict().values()]
    expected = sum(tensor.nbytes for tensor in tensors)
    assert loaded.info.weight_bytes(torch.float32) == expected
