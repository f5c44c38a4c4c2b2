"""What device there is, and whether this torch can use it. Loads nothing."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

import psutil
import torch

from model.loading import compute_threads, pick_device

CPU_FEATURES = ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16", "amx_int8")
NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")


@dataclass(frozen=True)
class Device:
    """The device that `--device` means here, and whether this torch can use it."""

    kind: str
    """`cpu` or `cuda`."""
    name: str
    capability: str
    """`sm_90` and the like; on a CPU the instruction sets that matter."""
    torch_build: str
    kernels: tuple[str, ...]
    """Architectures that torch was built for; empty on a CPU."""
    supported: bool
    driver_without_cuda: bool
    """A GPU is in the machine, and this torch is built without CUDA."""
    memory_bytes: int
    free_bytes: int
    threads: int


def inspect_device(device: str) -> Device:
    """Look at the device without using it."""
    kind = pick_device(device).type
    return _inspect_cuda() if kind == "cuda" else _inspect_cpu()


def _inspect_cpu() -> Device:
    memory = psutil.virtual_memory()
    flags = _cpu_flags()
    return Device(
        kind="cpu",
        name=_cpu_name(),
        capability=" ".join(name for name in CPU_FEATURES if name in flags) or "none of note",
        torch_build=torch.__version__,
        kernels=(),
        supported=True,
        driver_without_cuda=NVIDIA_DRIVER.exists() and torch.version.cuda is None,
        memory_bytes=memory.total,
        free_bytes=memory.available,
        threads=compute_threads(),
    )


def _inspect_cuda() -> Device:
    major, minor = torch.cuda.get_device_capability()
    free, total = torch.cuda.mem_get_info()
    kernels = tuple(torch.cuda.get_arch_list())
    return Device(
        kind="cuda",
        name=torch.cuda.get_device_name(),
        capability=f"sm_{major}{minor}",
        torch_build=torch.__version__,
        kernels=kernels,
        supported=can_run(kernels, major, minor),
        driver_without_cuda=False,
        memory_bytes=total,
        free_bytes=free,
        threads=compute_threads(),
    )


def can_run(kernels: tuple[str, ...], major: int, minor: int) -> bool:
    """Whether a torch with `kernels` runs on a device of capability `major.minor`.

    Machine code (`sm_86`) serves later minors of its major; portable code (`compute_86`) serves
    every later device. A suffix (`sm_90a`) ties it to exactly that one.
    """
    for kernel in kernels:
        form, _, number = kernel.partition("_")
        if not number.rstrip("af").isdigit():
            continue
        plain = number.rstrip("af")
        built = (int(plain[:-1]), int(plain[-1]))
        if plain != number and built != (major, minor):
            continue
        if form == "compute" and built <= (major, minor):
            return True
        if form == "sm" and built[0] == major and built[1] <= minor:
            return True
    return False


def _cpu_flags() -> set[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux
        return set()
    return next((set(line.split()) for line in lines if line.startswith("flags")), set())


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
