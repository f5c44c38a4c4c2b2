"""One safetensors file: verified against a schema, then read through a memory map.

A tensor that stays on the CPU in its stored dtype is a view of the map and costs no memory of its
own. Knows names, shapes and dtypes; nothing of modules or of where files come from.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from model.checkpoint.errors import (
    CheckpointIncomplete,
    CorruptFile,
    MissingTensor,
    TensorDtype,
    TensorNotFinite,
    TensorShape,
    UnexpectedTensor,
)
from model.checkpoint.schema import Schema, TensorSpec

STORED = {"F32": torch.float32, "BF16": torch.bfloat16}
"""Dtypes, as the file format spells them, that weights may be stored in."""


@dataclass(frozen=True)
class TensorFile:
    """An open file whose tensors fit its schema; `sources` says under which names they stand."""

    path: Path
    handle: Any
    schema: Schema
    sources: dict[str, tuple[str, ...]]

    def dtype(self, name: str) -> torch.dtype:
        """Stored dtype of `name`."""
        return STORED[self.handle.get_slice(self.sources[name][0]).get_dtype()]

    def read(self, name: str, rows: int, device: torch.device, dtype: torch.dtype) -> Tensor:
        """The first `rows` along dimension 0 of `name`, checked to be finite.

        Raises `TensorNotFinite`.
        """
        pieces = [self.handle.get_tensor(source) for source in self.sources[name]]
        whole = pieces[0] if len(pieces) == 1 else torch.cat(pieces)
        tensor: Tensor = whole[:rows].to(device=device, dtype=dtype)
        lowest, highest = torch.aminmax(tensor)
        if not bool(torch.isfinite(lowest) & torch.isfinite(highest)):
            raise TensorNotFinite(self.path, name, "holds NaN or infinity; fetch it again")
        return tensor


@contextmanager
def open_tensors(path: Path) -> Iterator[Any]:
    """Map `path`. Raises `CheckpointIncomplete`, `CorruptFile`."""
    try:
        handle = safe_open(path, framework="pt", device="cpu")  # type: ignore[no-untyped-call]
    except FileNotFoundError as error:
        raise CheckpointIncomplete(f"{path} does not exist") from error
    except (OSError, SafetensorError) as error:
        raise CorruptFile(path, "safetensors", str(error)) from error
    with handle as opened:
        yield opened


def count_steps(path: Path) -> int:
    """How many depformer steps the file holds: one `linears.*` each."""
    with open_tensors(path) as handle:
        return sum(name.startswith("linears.") for name in handle.keys())  # noqa: SIM118


@contextmanager
def verified(path: Path, schema: Schema, *, one_dtype: bool) -> Iterator[TensorFile]:
    """Open `path` and hold every name, shape and dtype in it against `schema`.

    Raises `MissingTensor`, `UnexpectedTensor`, `TensorShape`, `TensorDtype`, and what
    `open_tensors` raises. Only headers are read. `one_dtype` asks for the same dtype throughout.
    """
    with open_tensors(path) as handle:
        present = frozenset(handle.keys())
        sources = {name: _find(path, name, spec, present) for name, spec in schema.items()}
        _refuse_leftovers(path, sources, present)
        for name, spec in schema.items():
            _check_shape(path, handle, name, spec, sources[name])
        _check_dtypes(path, handle, sources, one_dtype)
        yield TensorFile(path, handle, schema, sources)


def _find(path: Path, name: str, spec: TensorSpec, present: frozenset[str]) -> tuple[str, ...]:
    for candidate in (name, *spec.aliases):
        if candidate in present:
            return (candidate,)
    if spec.parts and spec.parts[0] in present:
        for part in spec.parts:
            if part not in present:
                raise MissingTensor(path, part, "is missing")
        return spec.parts
    close = difflib.get_close_matches(name, present, n=1, cutoff=0.8)
    hint = f"; `{close[0]}` comes nearest" if close else "; is this the right file?"
    raise MissingTensor(path, name, f"is missing{hint}")


def _refuse_leftovers(
    path: Path, sources: dict[str, tuple[str, ...]], present: frozenset[str]
) -> None:
    used = {name for names in sources.values() for name in names}
    for name in sorted(present - used):
        raise UnexpectedTensor(path, name, "has no place in the model that config.json describes")


def _check_shape(
    path: Path, handle: Any, name: str, spec: TensorSpec, sources: tuple[str, ...]
) -> None:
    rows, *rest = spec.shape
    wanted = [rows // len(sources), *rest]
    for source in sources:
        found = list(handle.get_slice(source).get_shape())
        if found != wanted:
            raise TensorShape(path, source, f"is {found}, but config.json asks for {wanted}")


def _check_dtypes(
    path: Path, handle: Any, sources: dict[str, tuple[str, ...]], one_dtype: bool
) -> None:
    first = None
    for name in (source for names in sources.values() for source in names):
        found = handle.get_slice(name).get_dtype()
        if found not in STORED:
            raise TensorDtype(path, name, f"is {found}, but weights must be F32 or BF16")
        first = first or found
        if one_dtype and found != first:
            raise TensorDtype(path, name, f"is {found}, but the tensors before it are {first}")
