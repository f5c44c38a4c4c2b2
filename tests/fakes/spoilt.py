"""Fixtures: copies of the tiny checkpoint that a test may spoil."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file
from torch import Tensor

from model.checkpoint.names import CONFIG_NAME, MODEL_NAME

Tensors = dict[str, Tensor]


@pytest.fixture
def copy(tiny_checkpoint: Path, tmp_path: Path) -> Path:
    """The tiny checkpoint in a folder of its own; files are links until they are replaced."""
    folder = tmp_path / "copy"
    (folder / "voices").mkdir(parents=True)
    for path in tiny_checkpoint.rglob("*"):
        if path.is_file():
            os.link(path, folder / path.relative_to(tiny_checkpoint))
    return folder


@pytest.fixture
def edit_config(copy: Path) -> Callable[[Callable[[dict[str, Any]], object]], Path]:
    """Rewrite the copy's `config.json` by a function that changes it in place."""

    def edit(change: Callable[[dict[str, Any]], object]) -> Path:
        path = copy / CONFIG_NAME
        body = json.loads(path.read_text())
        change(body)
        path.unlink()
        path.write_text(json.dumps(body))
        return copy

    return edit


@pytest.fixture
def edit_tensors(copy: Path) -> Callable[..., Path]:
    """Rewrite one of the copy's tensor files by a function that changes the dict in place."""

    def edit(change: Callable[[Tensors], object], file: str = MODEL_NAME) -> Path:
        path = copy / file
        tensors = load_file(path)
        change(tensors)
        path.unlink()
        save_file(tensors, path)
        return copy

    return edit
