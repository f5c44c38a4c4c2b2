"""The names and shapes that a released checkpoint has."""

from __future__ import annotations

import dataclasses
from math import prod

import pytest

from model.checkpoint.schema import Schema, lm_schema, mimi_schema
from model.config import LMConfig, MimiConfig, ModelConfig
from model.lm import LanguageModel
from model.mimi import Mimi
from model.modules import meta_lm, meta_mimi
from model.presets import PRESETS

pytestmark = pytest.mark.unit


def values(schema: Schema) -> int:
    return sum(prod(spec.shape) for spec in schema.values())


def test_personaplex_has_475_tensors_and_moshi_355() -> None:
    sixteen = lm_schema(LMConfig())
    eight = lm_schema(dataclasses.replace(LMConfig(), dep_q=8))
    assert (len(sixteen), values(sixteen)) == (475, 8_371_408_896)
    assert (len(eight), values(eight)) == (355, 7_687_729_152)


def test_mimi_has_318_tensors() -> None:
    schema = mimi_schema(MimiConfig())
    assert (len(schema), values(schema)) == (318, 96_151_393)


@pytest.mark.parametrize("config", [ModelConfig(), *PRESETS.values()], ids=["7b", *PRESETS])
def test_the_modules_have_exactly_these_tensors(config: ModelConfig) -> None:
    pairs: list[tuple[LanguageModel | Mimi, Schema]] = [
        (meta_lm(config.lm), lm_schema(config.lm)),
        (meta_mimi(config), mimi_schema(config.mimi)),
    ]
    for module, schema in pairs:
        shapes = {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
        assert shapes == {name: spec.shape for name, spec in schema.items()}
