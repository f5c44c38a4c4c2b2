"""Builds the modules without memory, for tensors that are to be taken over as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import torch
from torch import Tensor, nn

from model.config import LMConfig, ModelConfig
from model.lm import LanguageModel
from model.mimi import Mimi

Module = TypeVar("Module", bound=nn.Module)


def meta_lm(config: LMConfig) -> LanguageModel:
    """A language model whose tensors have shapes and no values yet."""
    with torch.device("meta"):
        return LanguageModel(config)


def meta_mimi(config: ModelConfig) -> Mimi:
    """A codec whose tensors have shapes and no values yet."""
    with torch.device("meta"):
        return Mimi(config.mimi, config.attention_window)


def adopt(module: Module, tensors: Mapping[str, Tensor]) -> Module:
    """Let `module` use exactly these tensors, without copies, for inference."""
    module.load_state_dict(tensors, assign=True)
    return module.requires_grad_(False).eval()
