"""`config.json`: defaults, the form that is documented, and refusals by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from model.checkpoint.config import CheckpointConfig, parse_config, read_config
from model.checkpoint.errors import ConfigMismatch
from model.checkpoint.load import describe
from model.checkpoint.write import config_as_json
from model.config import ModelConfig
from model.presets import PRESETS, TINY

pytestmark = pytest.mark.unit

DOCUMENTED = """
{"model_type": "personaplex",
 "lm": {"dim": 64, "num_heads": 4, "num_layers": 2, "hidden_scale": 4.125, "context": 300,
        "text_card": 200, "n_q": 16, "dep_q": 16, "card": 2048, "depformer_dim": 32,
        "depformer_num_heads": 2, "depformer_num_layers": 2, "depformer_dim_feedforward": 132,
        "existing_text_padding_id": 3,
        "delays": [0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1]},
 "mimi": {"seanet": {"dimension": 64, "n_filters": 8},
          "transformer": {"d_model": 64, "num_heads": 4, "num_layers": 2, "context": 20,
                          "dim_feedforward": 128},
          "quantizer": {"dimension": 32, "n_q": 12, "bins": 2048}},
 "silence_codes": [948, 243, 1178, 546, 1736, 1030, 1978, 2008],
 "sine_codes": [430, 1268, 381, 1611, 1095, 1495, 56, 472],
 "attention_window": "moshi"}
"""


def test_the_documented_form_is_the_tiny_preset() -> None:
    assert parse_config(json.loads(DOCUMENTED)).model == TINY


def test_without_lm_it_is_the_released_7b(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "personaplex", "version": "7b-v1"}')
    config = read_config(path)
    assert config.model == ModelConfig()
    assert config.model.attention_window == "personaplex"
    assert config.voice == "NATF2.pt"
    assert config.steps_from_file


def test_what_is_left_out_has_the_7b_value() -> None:
    config = parse_config({"lm": {"dim": 64, "num_heads": 2}})
    assert config.model.lm.dim == 64
    assert config.model.lm.num_layers == ModelConfig().lm.num_layers
    assert config.model.mimi == ModelConfig().mimi
    assert config.steps_from_file


@pytest.mark.parametrize("name", PRESETS)
def test_what_is_written_is_read_back(name: str) -> None:
    config = CheckpointConfig(
        PRESETS[name],
        steps_from_file=False,
        voice="A.pt",
        persona="p",
        licence="l",
        random=True,
        dtype="float32",
    )
    assert parse_config(json.loads(json.dumps(config_as_json(config)))) == config


def test_keys_of_the_moshi_package_may_stand_with_the_value_that_is_built_in() -> None:
    raw = {
        "lm": {"gating": "silu", "causal": True, "depformer_context": 8, "layer_scale": None},
        "mimi": {
            "sample_rate": 24000,
            "transformer": {"layer_scale": 0.01, "input_dimension": 512},
            "quantizer": {"input_dimension": 512},
        },
    }
    assert parse_config(raw).model == ModelConfig()


@pytest.mark.parametrize(
    ("raw", "named"),
    [
        ({"lm": {"gating": "gelu"}}, "lm.gating"),
        ({"lm": {"positional_embedding": "sin"}}, "lm.positional_embedding"),
        ({"lm": {"dims": 64}}, "lm.dims"),
        ({"lm": {"dim": "64"}}, "lm.dim"),
        ({"lm": {"dim": True}}, "lm.dim"),
        ({"lm": {"context": 0}}, "lm.context"),
        ({"lm": {"hidden_scale": -1.0}}, "lm.hidden_scale"),
        ({"lm": {"delays": 3}}, "lm.delays"),
        ({"lm": []}, "lm must be an object"),
        ({"lm": {}, "mimi": {"seanet": {"norm": "weight_norm"}}}, "mimi.seanet.norm"),
        ({"lm": {}, "mimi": {"encoder": {}}}, "mimi.encoder"),
        ({"lm": {}, "attention_window": "full"}, "attention_window"),
        ({"lm": {}, "persona": 3}, "persona"),
        ({"lm": {}, "silence_codes": ["a"]}, "silence_codes"),
        ({"lm": {}, "colour": 1}, "colour"),
    ],
)
def test_a_wrong_key_or_type_is_refused_by_name(raw: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigMismatch, match=named):
        parse_config(raw)


@pytest.mark.parametrize("text", ["", "{", "[1]", "\xff"])
def test_a_file_that_is_no_json_object_is_one_line(copy: Path, text: str) -> None:
    path = copy / "config.json"
    path.unlink()
    path.write_text(text, encoding="latin-1")
    with pytest.raises(ConfigMismatch, match=r"config\.json"):
        describe(str(copy))
