"""Reads `config.json`: shapes under the `moshi` package's own names, constants, defaults.

What the file leaves out has the value of the released 7B; a file without an `lm` key is the
released 7B. Keys that this architecture fixes may stand there with that value and no other.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, get_args

from model.checkpoint.errors import ConfigMismatch
from model.checkpoint.fit import check_fit
from model.config import (
    AttentionWindow,
    CodecTransformerConfig,
    LMConfig,
    MimiConfig,
    ModelConfig,
    QuantizerConfig,
    SeanetConfig,
)

DEFAULT_VOICE = "NATF2.pt"
DEFAULT_PERSONA = (
    "You are a wise and friendly teacher. Answer questions or provide advice in a clear and"
    " engaging way."
)

ANY = object()
"""Stands for a value that the `moshi` package reads, without effect on this architecture."""

FIXED_LM: Mapping[str, object] = {
    "depformer_context": ANY,
    "depformer_max_period": ANY,
    "causal": True,
    "layer_scale": None,
    "gating": "silu",
    "norm": "rms_norm_f32",
    "positional_embedding": "rope",
    "depformer_causal": True,
    "depformer_layer_scale": None,
    "depformer_multi_linear": True,
    "depformer_gating": "silu",
    "depformer_pos_emb": "none",
    "depformer_weights_per_step": True,
    "depformer_weights_per_step_schedule": None,
    "depformer_low_rank_embeddings": None,
    "demux_second_stream": False,
    "demux_second_text_stream": False,
    "extra_heads_num_heads": 0,
}
FIXED_SEANET: Mapping[str, object] = {
    "channels": 1,
    "causal": True,
    "n_residual_layers": 1,
    "activation": "ELU",
    "dilation_base": 2,
    "disable_norm_outer_blocks": 0,
    "norm": "none",
    "pad_mode": "constant",
    "true_skip": True,
}
FIXED_TRANSFORMER: Mapping[str, object] = {
    "layer_scale": ANY,
    "input_dimension": ANY,
    "output_dimensions": ANY,
    "causal": True,
    "conv_layout": True,
    "gating": "none",
    "norm": "layer_norm",
    "positional_embedding": "rope",
}
FIXED_QUANTIZER: Mapping[str, object] = {"input_dimension": ANY, "output_dimension": ANY}
MIMI_KEYS = frozenset(
    {"seanet", "transformer", "quantizer", "sample_rate", "channels", "frame_rate"}
)
TOP_KEYS = frozenset(
    {"model_type", "version", "lm", "mimi", "silence_codes", "sine_codes", "attention_window"}
    | {"voice", "persona", "licence", "random", "dtype"}
)

Shape = TypeVar("Shape", LMConfig, SeanetConfig, CodecTransformerConfig, QuantizerConfig)


@dataclass(frozen=True)
class CheckpointConfig:
    """All that `config.json` says."""

    model: ModelConfig = field(default_factory=ModelConfig)
    steps_from_file: bool = True
    """`dep_q` is not stated and follows from the tensors."""
    voice: str = DEFAULT_VOICE
    persona: str = DEFAULT_PERSONA
    licence: str | None = None
    random: bool = False
    """The weights are drawn from a seed and mean nothing."""
    dtype: str | None = None
    """Dtype to compute the language model in, where it is not the stored one."""


def read_config(path: Path) -> CheckpointConfig:
    """Read and check `path`. Raises `ConfigMismatch`."""
    raw = _read_object(path)
    if "lm" not in raw:
        return CheckpointConfig()
    try:
        config = parse_config(raw)
        check_fit(config.model)
    except ConfigMismatch as error:
        raise ConfigMismatch(f"{path}: {error}") from error
    return config


def _read_object(path: Path) -> dict[str, Any]:
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigMismatch(
            f"{path} cannot be read as JSON ({error}); fetch or export it again"
        ) from error
    if not isinstance(raw, dict):
        raise ConfigMismatch(f"{path} must hold one JSON object")
    return raw


def parse_config(raw: Mapping[str, Any]) -> CheckpointConfig:
    """Turn the JSON object into dataclasses. Raises `ConfigMismatch` for an unknown key."""
    _only_known("", raw, TOP_KEYS)
    lm = _object(raw, "lm")
    base = ModelConfig()
    model = ModelConfig(
        lm=_shape(LMConfig, "lm", lm, FIXED_LM),
        mimi=_mimi(_object(raw, "mimi")),
        silence_codes=_codes(raw, "silence_codes", base.silence_codes),
        sine_codes=_codes(raw, "sine_codes", base.sine_codes),
        attention_window=_window(raw.get("attention_window", base.attention_window)),
    )
    return CheckpointConfig(
        model=model,
        steps_from_file="dep_q" not in lm,
        voice=_text(raw, "voice", DEFAULT_VOICE),
        persona=_text(raw, "persona", DEFAULT_PERSONA),
        licence=_text(raw, "licence", "") or None,
        random=raw.get("random") is True,
        dtype=_text(raw, "dtype", "") or None,
    )


def _mimi(raw: Mapping[str, Any]) -> MimiConfig:
    _only_known("mimi.", raw, MIMI_KEYS)
    return MimiConfig(
        seanet=_shape(SeanetConfig, "mimi.seanet", _object(raw, "seanet"), FIXED_SEANET),
        transformer=_shape(
            CodecTransformerConfig,
            "mimi.transformer",
            _object(raw, "transformer"),
            FIXED_TRANSFORMER,
        ),
        quantizer=_shape(
            QuantizerConfig, "mimi.quantizer", _object(raw, "quantizer"), FIXED_QUANTIZER
        ),
    )


def _shape(
    kind: type[Shape], place: str, raw: Mapping[str, Any], fixed: Mapping[str, object]
) -> Shape:
    """Build one dataclass; refuse keys of other architectures and values of other types."""
    fields = {item.name: item.default for item in dataclasses.fields(kind)}
    _only_known(f"{place}.", raw, frozenset(fields) | frozenset(fixed))
    for key, value in fixed.items():
        if value is not ANY and raw.get(key, value) != value:
            raise ConfigMismatch(f"{place}.{key} must be {value!r}, not {raw[key]!r}")
    values = {
        key: _like(f"{place}.{key}", raw[key], default)
        for key, default in fields.items()
        if key in raw
    }
    return kind(**values)


def _like(place: str, value: Any, default: object) -> Any:
    """`value` as the type of `default`: a tuple of integers, an integer or a float."""
    if isinstance(default, tuple):
        if not isinstance(value, list) or not all(_is_integer(item) for item in value):
            raise ConfigMismatch(f"{place} must be a list of integers, not {value!r}")
        return tuple(value)
    if isinstance(default, float):
        if not (_is_integer(value) or isinstance(value, float)) or value <= 0:
            raise ConfigMismatch(f"{place} must be a positive number, not {value!r}")
        return float(value)
    if not _is_integer(value) or value < 1:
        raise ConfigMismatch(f"{place} must be a positive integer, not {value!r}")
    return value


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _object(raw: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = raw.get(key, {})
    if not isinstance(value, dict):
        raise ConfigMismatch(f"{key} must be an object, not {value!r}")
    return value


def _codes(raw: Mapping[str, Any], key: str, default: tuple[int, ...]) -> tuple[int, ...]:
    codes: tuple[int, ...] = _like(key, raw.get(key, list(default)), default)
    return codes


def _window(value: object) -> AttentionWindow:
    for known in get_args(AttentionWindow):
        if value == known:
            return known  # type: ignore[no-any-return]
    raise ConfigMismatch(f"attention_window must be moshi or personaplex, not {value!r}")


def _text(raw: Mapping[str, Any], key: str, default: str) -> str:
    value = raw.get(key, default)
    if not isinstance(value, str):
        raise ConfigMismatch(f"{key} must be a text, not {value!r}")
    return value


def _only_known(place: str, raw: Mapping[str, Any], known: frozenset[str]) -> None:
    for key in raw:
        if key not in known:
            raise ConfigMismatch(f"{place}{key} is not a key that this architecture has")
