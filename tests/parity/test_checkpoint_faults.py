"""Spoiled files: each gives its typed error, which names the tensor, and nothing is loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from model.checkpoint.errors import (
    CheckpointError,
    CorruptFile,
    MissingTensor,
    TensorDtype,
    TensorError,
    TensorNotFinite,
    TensorShape,
    TokenizerError,
    UnexpectedTensor,
    VoiceError,
)
from model.checkpoint.load import load_checkpoint
from model.checkpoint.names import MODEL_NAME
from model.checkpoint.tensors import TensorFile
from model.checkpoint.write import MIMI_NAME, TOKENIZER_NAME
from model.presets import VOICE

pytestmark = pytest.mark.parity

Tensors = dict[str, Tensor]
EditTensors = Callable[..., Path]
CODEBOOK = "quantizer.rvq_rest.vq.layers.3._codebook.embedding_sum"


def load(folder: Path) -> None:
    load_checkpoint(str(folder), device=torch.device("cpu"))


def swap(a: str, b: str) -> Callable[[Tensors], None]:
    def change(tensors: Tensors) -> None:
        tensors[a], tensors[b] = tensors[b], tensors[a]

    return change


def rename(old: str, new: str) -> Callable[[Tensors], None]:
    def change(tensors: Tensors) -> None:
        tensors[new] = tensors.pop(old)

    return change


def cast(name: str, dtype: torch.dtype) -> Callable[[Tensors], None]:
    def change(tensors: Tensors) -> None:
        tensors[name] = tensors[name].to(dtype)

    return change


def spoil(name: str, value: float) -> Callable[[Tensors], None]:
    def change(tensors: Tensors) -> None:
        tensors[name].view(-1)[-1] = value

    return change


HEADER_FAULTS = [
    pytest.param(
        swap("text_emb.weight", "text_linear.weight"), TensorShape, "text_emb.weight", id="swapped"
    ),
    pytest.param(
        rename("transformer.layers.1.norm1.alpha", "transformer.layers.1.norm_1.alpha"),
        MissingTensor,
        "transformer.layers.1.norm1.alpha",
        id="renamed",
    ),
    pytest.param(
        lambda tensors: tensors.pop("linears.9.weight"),
        MissingTensor,
        "linears.9.weight",
        id="lost",
    ),
    pytest.param(
        lambda tensors: tensors.update({"extra.weight": torch.zeros(2)}),
        UnexpectedTensor,
        "extra.weight",
        id="extra",
    ),
    pytest.param(
        cast("emb.3.weight", torch.float16), TensorDtype, "emb.3.weight", id="half precision"
    ),
    pytest.param(cast("emb.3.weight", torch.int64), TensorDtype, "emb.3.weight", id="integers"),
    pytest.param(
        cast("emb.3.weight", torch.bfloat16), TensorDtype, "emb.3.weight", id="mixed dtypes"
    ),
]


@pytest.mark.parametrize(("change", "kind", "tensor"), HEADER_FAULTS)
def test_a_fault_in_the_header_is_found_before_any_weight_is_read(
    edit_tensors: EditTensors,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Tensors], object],
    kind: type[TensorError],
    tensor: str,
) -> None:
    folder = edit_tensors(change)
    monkeypatch.delattr(TensorFile, "read")
    with pytest.raises(kind, match=f"tensor `{tensor}`") as refused:
        load(folder)
    assert refused.value.tensor == tensor
    assert refused.value.path.name == MODEL_NAME
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize(
    ("file", "tensor"),
    [
        (MODEL_NAME, "depformer.layers.1.self_attn.in_proj_weight"),
        (MODEL_NAME, "out_norm.alpha"),
        (MIMI_NAME, "decoder.model.14.conv.conv.bias"),
        (MIMI_NAME, CODEBOOK),
    ],
)
def test_a_weight_that_is_no_number_is_named(
    edit_tensors: EditTensors, file: str, tensor: str, value: float
) -> None:
    folder = edit_tensors(spoil(tensor, value), file)
    with pytest.raises(TensorNotFinite, match=tensor):
        load_checkpoint(str(folder), device=torch.device("cpu"), depformer_steps=16)


@pytest.mark.parametrize("file", [MODEL_NAME, MIMI_NAME])
@pytest.mark.parametrize("keep", [0.0, 0.0001, 0.5, 0.999])
def test_a_truncated_file_is_named(copy: Path, file: str, keep: float) -> None:
    path = copy / file
    body = path.read_bytes()
    path.unlink()
    path.write_bytes(body[: int(len(body) * keep)])
    with pytest.raises(CorruptFile, match=file):
        load(copy)


def test_the_wrong_file_in_the_place_of_another_is_said_so(copy: Path) -> None:
    (copy / MODEL_NAME).unlink()
    (copy / MODEL_NAME).write_bytes((copy / MIMI_NAME).read_bytes())
    with pytest.raises(MissingTensor, match="is this the right file"):
        load(copy)


@pytest.mark.parametrize(
    ("file", "kind"), [(TOKENIZER_NAME, TokenizerError), (MODEL_NAME, CorruptFile)]
)
def test_a_file_of_another_kind_is_named(
    copy: Path, file: str, kind: type[CheckpointError]
) -> None:
    (copy / file).unlink()
    (copy / file).write_text("This is a text about something else entirely.\n" * 99)
    with pytest.raises(kind, match=file):
        load(copy)


def test_a_default_voice_that_is_not_there_is_refused(copy: Path) -> None:
    (copy / "voices" / VOICE).unlink()
    with pytest.raises(VoiceError, match=VOICE):
        load(copy)
