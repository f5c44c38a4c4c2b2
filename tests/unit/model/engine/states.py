"""Every tensor that an object keeps, found by walking it, so that none can be forgotten."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


def tensors(owner: object) -> dict[str, Tensor]:
    """By path from `owner` through the project's objects and plain containers.

    Of several views of one memory the first that is met stands for all.
    """
    found: dict[str, Tensor] = {}
    memories, met, waiting = set[int](), set[int](), [("", owner)]
    while waiting:
        path, item = waiting.pop(0)
        if isinstance(item, Tensor):
            memory = item.untyped_storage().data_ptr()
            if memory not in memories:
                memories.add(memory)
                found[path] = item
        elif id(item) not in met:
            met.add(id(item))
            waiting.extend((f"{path}.{name}".strip("."), part) for name, part in parts(item))
    return found


def parts(item: object) -> Iterable[tuple[object, object]]:
    if isinstance(item, dict):
        return item.items()
    if isinstance(item, list | tuple):
        return enumerate(item)
    return vars(item).items() if type(item).__module__.startswith("model.") else ()


def copies(owner: object) -> dict[str, Tensor]:
    return {path: tensor.clone() for path, tensor in tensors(owner).items()}


def changed(owner: object, before: dict[str, Tensor]) -> dict[str, Tensor]:
    """What no longer has the bits of `before`, NaN equal to NaN."""
    now = tensors(owner)
    assert now.keys() == before.keys()
    return {path: now[path] for path in now if not same(now[path], before[path])}


def same(a: Tensor, b: Tensor) -> bool:
    return bool(torch.isclose(a, b, rtol=0, atol=0, equal_nan=True).all())
