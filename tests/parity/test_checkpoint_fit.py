"""Constants, vocabulary, codebooks and shapes that do not fit each other are refused by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from model.checkpoint.errors import ConfigMismatch
from model.checkpoint.load import describe

pytestmark = pytest.mark.parity

Edit = Callable[[Callable[[dict[str, Any]], object]], Path]


def put(section: str, key: str, value: object) -> Callable[[dict[str, Any]], None]:
    def change(body: dict[str, Any]) -> None:
        target = body
        for part in filter(None, section.split(".")):
            target = target[part]
        target[key] = value

    return change


@pytest.mark.parametrize(
    ("section", "key", "value", "named"),
    [
        ("", "silence_codes", [2048, 1, 2, 3, 4, 5, 6, 7], "silence_codes holds 2048"),
        ("", "sine_codes", [1, 2, 3], "sine_codes has 3 codes"),
        ("", "dtype", "int8", "dtype must be"),
        ("lm", "text_card", 300, "lm.text_card is 300"),
        ("lm", "card", 1024, "lm.card is 1024, but mimi.quantizer.bins is 2048"),
        ("lm", "n_q", 8, "lm.n_q is 8"),
        ("lm", "dep_q", 4, "lm.dep_q is 4"),
        ("lm", "delays", [0] * 17, "lm.delays"),
        ("lm", "delays", [0, 0, 1], "lm.delays has 3 entries"),
        ("lm", "existing_text_padding_id", 7, "lm.existing_text_padding_id is 7"),
        ("lm", "num_heads", 5, "lm.dim is 64, which lm.num_heads 5"),
        ("lm", "depformer_num_heads", 3, "lm.depformer_dim is 32"),
        ("mimi.seanet", "dimension", 32, "mimi.seanet.dimension is 32"),
        ("mimi.seanet", "ratios", [8, 6, 5, 2], "mimi.seanet.ratios"),
        ("mimi.transformer", "context", 2, "mimi.transformer.context is 2"),
        ("mimi.quantizer", "n_q", 4, "mimi.quantizer.n_q is 4"),
        ("mimi.quantizer", "bins", 64, "mimi.quantizer.bins is 64"),
    ],
)
def test_values_that_do_not_fit_each_other_are_refused_by_name(
    edit_config: Edit, section: str, key: str, value: object, named: str
) -> None:
    folder = edit_config(put(section, key, value))
    with pytest.raises(ConfigMismatch, match=named) as refused:
        describe(str(folder))
    assert "\n" not in str(refused.value)
