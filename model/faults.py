"""Which failures are one call's, and which are the device's (contract I5)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

import torch

log = logging.getLogger(__name__)
T = TypeVar("T")


class DeviceFault(Exception):
    """The device cannot be trusted any more; nothing but a new process helps."""


def is_cuda_error(error: BaseException) -> bool:
    """An error after which a CUDA context answers nothing sensible, out of memory included."""
    accelerator_error = getattr(torch, "AcceleratorError", ())
    if isinstance(error, accelerator_error or ()) or isinstance(error, torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and "CUDA" in str(error)


def raise_if_device(error: Exception) -> None:
    """Turn a CUDA error into a device fault; leave the rest to whom it concerns."""
    if is_cuda_error(error):
        raise DeviceFault(f"CUDA error: {error}") from error


def run_twice(step: Callable[[], T], on_retry: Callable[[], None]) -> T:
    """Run `step`, once more if it raises: a step commits last, so its state is unchanged.

    Raises `DeviceFault` where the second try raises too, and at once what is one already.
    """
    try:
        return step()
    except DeviceFault:
        raise
    except Exception as error:
        raise_if_device(error)
        log.warning("a step raised and is tried once more: %s", error, exc_info=error)
    on_retry()
    try:
        return step()
    except Exception as error:
        raise DeviceFault(f"a step raised twice: {error}") from error
