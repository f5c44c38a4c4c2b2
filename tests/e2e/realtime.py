"""What the Realtime end-to-end tests share: engines, questions, and the published wheel."""

from __future__ import annotations

import asyncio
import importlib
import logging
import shutil
import subprocess
import sys
import types
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np

from agent.http import HttpOptions
from model import FRAME_SAMPLES, load_engine
from tests.fakes.answering import Answering
from tests.fakes.engine import FakeEngine
from tests.fakes.server import Server, serving

CACHE = Path(__file__).resolve().parents[2] / ".cache" / "vllm-omni-0.30.0"
WHEEL = "vllm-omni==0.30.0"
ENGINES = ("scripted", "real")


@asynccontextmanager
async def server_with(
    kind: str, checkpoint: Path, options: HttpOptions | None = None, *, max_sessions: int = 2
) -> AsyncIterator[Server]:
    """The real app around a scripted agent that answers, or around the real engine."""
    if kind == "scripted":
        engine = FakeEngine(max_sessions, Answering())
        async with serving(engine, options) as server:
            yield server
        return
    engine = await asyncio.to_thread(
        load_engine, str(checkpoint), max_sessions=max_sessions, device="cpu"
    )
    try:
        async with serving(engine, options) as server:
            yield server
    finally:
        await asyncio.to_thread(engine.shutdown)


def question(seconds: float = 0.8, silence_s: float = 0.4) -> np.ndarray:
    """Something loud like speech, then a pause; float32 at 24 kHz."""
    t = np.arange(int(seconds * 24_000)) / 24_000
    sound = 0.3 * np.sin(2 * np.pi * 220 * t) * (0.6 + 0.4 * np.sin(2 * np.pi * 4 * t))
    return np.concatenate([sound, np.zeros(int(silence_s * 24_000))]).astype(np.float32)


def pcm16(sound: np.ndarray) -> bytes:
    return np.clip(np.rint(sound * 32767), -32768, 32767).astype("<i2").tobytes()


def frames_of(data: bytes) -> float:
    """How many frames of 80 ms so many bytes of pcm16 are."""
    return len(data) / 2 / FRAME_SAMPLES


def published_wheel() -> Path:
    """The unpacked wheel of the published clients; fetched once into the ignored cache."""
    if not (CACHE / "vllm_omni").is_dir():
        CACHE.mkdir(parents=True, exist_ok=True)
        command = [*_pip(), "download", "--no-deps", "--dest", str(CACHE), WHEEL]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
        with zipfile.ZipFile(next(CACHE.glob("*.whl"))) as wheel:
            wheel.extractall(CACHE)
    return CACHE


def _pip() -> list[str]:
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    return [shutil.which("pip3") or shutil.which("pip") or "pip"]


def published(module: str) -> Any:
    """A module of the wheel, unmodified, without what its package would import around it."""
    root = published_wheel() / "vllm_omni"
    for name, path in (("vllm_omni", root), ("vllm_omni.engine", root / "engine")):
        if name not in sys.modules:
            package = types.ModuleType(name)
            package.__path__ = [str(path)]
            sys.modules[name] = package
    if "vllm.logger" not in sys.modules:
        logger = types.ModuleType("vllm.logger")
        logger.init_logger = logging.getLogger  # type: ignore[attr-defined]
        sys.modules.setdefault("vllm", types.ModuleType("vllm"))
        sys.modules["vllm.logger"] = logger
    return importlib.import_module(f"vllm_omni.{module}")
