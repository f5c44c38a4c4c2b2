"""From a name to a checkpoint in memory: modules on their device, tokenizer, voices.

Everything is verified before the first weight is read, and nothing is returned unless everything
was loaded. Modules are built without memory and take over the tensors as they are read.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor, nn

from model.checkpoint.config import CheckpointConfig, read_config
from model.checkpoint.errors import ConfigMismatch, VoiceError
from model.checkpoint.fit import check_fit, check_vocabulary
from model.checkpoint.hub import LICENCES
from model.checkpoint.locate import CheckpointFiles, locate
from model.checkpoint.schema import lm_schema, mimi_schema
from model.checkpoint.tensors import TensorFile, count_steps, verified
from model.config import LMConfig, ModelConfig
from model.core import AGENT_CODEBOOKS
from model.lm import LanguageModel
from model.mimi import Mimi
from model.modules import adopt, meta_lm, meta_mimi
from model.tokenizer import Tokenizer
from model.voices import VoiceCatalogue, open_catalogue

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
"""Dtypes that the language model can be computed in; Mimi is always float32."""


@dataclass(frozen=True)
class CheckpointInfo:
    """What can be known of a checkpoint without its weights."""

    name: str
    licence: str | None
    is_random: bool
    """The weights are drawn from a seed and mean nothing; say so wherever the model is named."""
    config: ModelConfig
    default_voice: str
    default_persona: str
    stored_dtype: torch.dtype
    """Of the language model's file."""
    dtype: torch.dtype
    """In which the language model is computed unless somebody asks otherwise."""
    voices: tuple[str, ...]
    files: CheckpointFiles

    def weight_bytes(self, dtype: torch.dtype, depformer_steps: int = AGENT_CODEBOOKS) -> int:
        """Memory of all weights when loaded so."""
        lm = dataclasses.replace(self.config.lm, dep_q=depformer_steps)
        lm_values = sum(prod(spec.shape) for spec in lm_schema(lm).values())
        mimi_values = sum(prod(spec.shape) for spec in mimi_schema(self.config.mimi).values())
        return lm_values * dtype.itemsize + mimi_values * torch.float32.itemsize


@dataclass(frozen=True)
class Checkpoint:
    """A loaded checkpoint. The modules hold weights only, without gradients, in eval mode."""

    info: CheckpointInfo
    lm: LanguageModel
    mimi: Mimi
    tokenizer: Tokenizer
    voices: VoiceCatalogue


def describe(name: str, *, voiceless: bool = False) -> CheckpointInfo:
    """Find and verify the checkpoint `name` without reading a weight.

    `voiceless` lets the default voice be missing, as before the first one is enrolled. Raises
    `CheckpointError`, whose message is one line.
    """
    files = locate(name)
    return _describe(files, Tokenizer(files.tokenizer), voiceless)


def load_checkpoint(
    name: str,
    *,
    device: torch.device,
    dtype: torch.dtype | None = None,
    depformer_steps: int = AGENT_CODEBOOKS,
    voiceless: bool = False,
) -> Checkpoint:
    """Load `name` onto `device`, the language model in `dtype` (default: `CheckpointInfo.dtype`).

    Of the depformer the first `depformer_steps` are kept: 8 are heard, up to 16 exist. On the CPU
    weights in their stored dtype stay in the mapped file. `voiceless` as for `describe`. Raises
    `CheckpointError`.
    """
    files = locate(name)
    tokenizer = Tokenizer(files.tokenizer)
    info = _describe(files, tokenizer, voiceless)
    if not AGENT_CODEBOOKS <= depformer_steps <= info.config.lm.dep_q:
        raise ConfigMismatch(
            f"{name} has {info.config.lm.dep_q} depformer steps; {depformer_steps} were asked for"
        )
    lm = _load_lm(info, depformer_steps, device, dtype or info.dtype)
    mimi = _load_mimi(info, device)
    return Checkpoint(info, lm, mimi, tokenizer, _catalogue(files, info.config.lm))


def _describe(files: CheckpointFiles, tokenizer: Tokenizer, voiceless: bool) -> CheckpointInfo:
    raw = read_config(files.config)
    config = _with_steps(raw, files)
    check_vocabulary(config, len(tokenizer), files.tokenizer.name)
    with verified(files.model, lm_schema(config.lm), one_dtype=True) as lm_file:
        stored = lm_file.dtype("text_emb.weight")
    with verified(files.mimi, mimi_schema(config.mimi), one_dtype=False):
        pass
    voices = _catalogue(files, config.lm).names()
    if raw.voice not in voices and not voiceless:
        raise VoiceError(
            f"{files.voices} lacks {raw.voice}, the default voice; fetch the checkpoint again"
        )
    return CheckpointInfo(
        name=files.name,
        licence=LICENCES.get(files.name.partition("@")[0], raw.licence),
        is_random=raw.random,
        config=config,
        default_voice=raw.voice,
        default_persona=raw.persona,
        stored_dtype=stored,
        dtype=_compute_dtype(raw, files, stored),
        voices=voices,
        files=files,
    )


def _with_steps(raw: CheckpointConfig, files: CheckpointFiles) -> ModelConfig:
    """The configuration with the depformer steps that the file has, where none are stated."""
    if not raw.steps_from_file:
        return raw.model
    lm = dataclasses.replace(raw.model.lm, dep_q=count_steps(files.model))
    config = dataclasses.replace(raw.model, lm=lm)
    check_fit(config)
    return config


def _compute_dtype(
    raw: CheckpointConfig, files: CheckpointFiles, stored: torch.dtype
) -> torch.dtype:
    if raw.dtype is None:
        return stored
    if raw.dtype not in DTYPES:
        known = " or ".join(DTYPES)
        raise ConfigMismatch(f"{files.config}: dtype must be {known}, not {raw.dtype!r}")
    return DTYPES[raw.dtype]


def _catalogue(files: CheckpointFiles, lm: LMConfig) -> VoiceCatalogue:
    return open_catalogue(files.voices, lm)


def _load_lm(
    info: CheckpointInfo, steps: int, device: torch.device, dtype: torch.dtype
) -> LanguageModel:
    lm = meta_lm(dataclasses.replace(info.config.lm, dep_q=steps))
    with verified(info.files.model, lm_schema(info.config.lm), one_dtype=True) as source:
        _fill(lm, source, device, dtype)
    return lm


def _load_mimi(info: CheckpointInfo, device: torch.device) -> Mimi:
    mimi = meta_mimi(info.config)
    with verified(info.files.mimi, mimi_schema(info.config.mimi), one_dtype=False) as source:
        _fill(mimi, source, device, torch.float32)
    return mimi


def _fill(module: nn.Module, source: TensorFile, device: torch.device, dtype: torch.dtype) -> None:
    """Give `module` its tensors; it never holds both its own and the file's."""
    state: dict[str, Tensor] = {
        name: source.read(name, target.shape[0], device, dtype)
        for name, target in module.state_dict().items()
    }
    adopt(module, state)
