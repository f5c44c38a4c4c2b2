"""One training on several processes, a core each: gradients are averaged, the first one decides.

With one process every function here does nothing. Knows nothing of what is trained.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.multiprocessing
from torch import Tensor, distributed

Result = TypeVar("Result")


def run_together(workers: int, work: Callable[..., None], *args: object) -> None:
    """Run `work(*args)` in `workers` processes that know of each other.

    Raises `RuntimeError` where one of them failed.
    """
    if workers == 1:
        work(*args)
        return
    with tempfile.TemporaryDirectory() as folder:
        meeting = Path(folder, "meeting").as_uri()
        context = torch.multiprocessing.get_context("spawn")
        parts = [
            context.Process(target=_join, args=(rank, workers, meeting, work, args))
            for rank in range(workers)
        ]
        for part in parts:
            part.start()
        for part in parts:
            part.join()
        if any(part.exitcode for part in parts):
            raise RuntimeError("a training failed; its message is above")


def share_out(
    work: Callable[..., Result], jobs: Sequence[tuple[Any, ...]], workers: int
) -> list[Result]:
    """What `work` returns for each job, done by so many processes, each on its own.

    Raises `BrokenProcessPool` where one of them was killed.
    """
    if workers == 1:
        return [work(*job) for job in jobs]
    context = get_context("spawn")
    with ProcessPoolExecutor(workers, context, torch.set_num_threads, (1,)) as pool:
        return list(pool.map(work, *zip(*jobs, strict=True)))


def _join(
    rank: int, workers: int, meeting: str, work: Callable[..., None], args: tuple[object, ...]
) -> None:
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=workers)
    try:
        work(*args)
    finally:
        distributed.destroy_process_group()


def rank() -> int:
    return distributed.get_rank() if distributed.is_initialized() else 0


def workers() -> int:
    return distributed.get_world_size() if distributed.is_initialized() else 1


@torch.no_grad()
def average(tensors: Iterable[Tensor]) -> None:
    """Replace each by its mean over the processes."""
    if workers() > 1:
        for tensor in _pooled(list(tensors)):
            distributed.all_reduce(tensor)
            tensor /= workers()


@torch.no_grad()
def adopt_first(tensors: Iterable[Tensor]) -> None:
    """Replace each by what the first process has."""
    if workers() > 1:
        for tensor in tensors:
            distributed.broadcast(tensor, 0)


def _pooled(tensors: list[Tensor]) -> Iterable[Tensor]:
    """All as one flat tensor, for one exchange; written back after it."""
    flat = torch.cat([tensor.flatten() for tensor in tensors])
    yield flat
    for tensor, part in zip(tensors, flat.split([t.numel() for t in tensors]), strict=True):
        tensor.copy_(part.view_as(tensor))
