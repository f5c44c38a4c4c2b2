"""The command `doctor`: is this machine fit for this checkpoint, and if not, what to do.

Looks at memory before any weight is loaded, then times fifty steps against the 80 ms that a frame
lasts. Prints one block that can be pasted into a bug report: no key, token, address or persona
stands in it, and the home folder is written `~`.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import json
import platform
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent import settings
from agent.command import configure_logging
from agent.memory import shortage, size
from agent.settings import Settings
from model import (
    FRAME_SECONDS,
    CheckpointError,
    CheckpointInfo,
    Device,
    EngineError,
    Needs,
    StepTimes,
    describe,
    inspect_device,
    memory_needs,
    time_steps,
)

PACKAGES = ("torch", "livekit", "livekit-agents", "safetensors", "huggingface-hub")


@dataclass
class Report:
    """All that was found; `problems` stop this checkpoint from running here."""

    versions: dict[str, str]
    device: Device
    max_sessions: int
    info: CheckpointInfo | None = None
    needs: Needs | None = None
    times: StepTimes | None = None
    problems: list[str] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    settings.add_arguments(parser, "model", "log")
    parser.add_argument("--json", action="store_true", help="print JSON in place of the table")


def run(args: argparse.Namespace) -> int:
    loaded = settings.load(args)
    configure_logging(loaded.log_level)
    report = examine(loaded)
    text = json.dumps(as_json(report), indent=1) if args.json else as_text(report)
    print(text.replace(str(Path.home()), "~"))
    return 1 if report.problems else 0


def examine(loaded: Settings) -> Report:
    """Everything, in the order in which a failure is cheapest to find."""
    device = inspect_device(loaded.device)
    report = Report(versions(), device, loaded.max_sessions)
    _judge_device(report)
    dtype = None if loaded.dtype == "auto" else loaded.dtype
    try:
        report.info = describe(loaded.model)
        report.needs = memory_needs(report.info, device, dtype)
        _judge_memory(report, report.needs)
        if not report.problems:
            report.times = time_steps(report.info, loaded.max_sessions, loaded.device, dtype)
            _judge_times(report, report.times)
    except (CheckpointError, EngineError) as error:
        report.problems.append(str(error))
    return report


def versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "system": platform.platform()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def _judge_device(report: Report) -> None:
    device = report.device
    if not device.supported:
        report.problems.append(
            f"torch {device.torch_build} has no kernels for {device.capability} (it has"
            f" {', '.join(device.kernels)}); install a torch that was built for this GPU"
        )
    if device.driver_without_cuda:
        report.advice.append(
            f"there is an NVIDIA GPU, but torch {device.torch_build} is built without CUDA; install"
            " the CUDA build to use it"
        )


def _judge_memory(report: Report, needs: Needs) -> None:
    """What would not fit, before it is loaded."""
    if (problem := shortage(needs, report.device, report.max_sessions)) is not None:
        report.problems.append(problem)


def _judge_times(report: Report, times: StepTimes) -> None:
    if times.p50_s > FRAME_SECONDS:
        report.advice.append(
            "a step takes longer than its frame lasts: speech will stutter; use a faster device or"
            " fewer sessions"
        )
    elif times.p99_s > FRAME_SECONDS:
        report.advice.append("some steps are late: close other programs or use fewer sessions")


def verdict(report: Report) -> str:
    """One line against the 80 ms of a frame."""
    if report.problems or report.times is None:
        return "will not run here"
    times = report.times
    room = f"p50 {times.p50_s * 1e3:.1f} ms, p99 {times.p99_s * 1e3:.1f} ms of 80 ms"
    if times.p50_s > FRAME_SECONDS:
        return f"too slow for {times.sessions} sessions ({room})"
    if times.p99_s > FRAME_SECONDS:
        return f"tight for {times.sessions} sessions ({room})"
    return f"real time with {times.sessions} sessions ({room})"


def _model_facts(info: CheckpointInfo) -> dict[str, Any]:
    return {
        "name": info.name,
        "licence": info.licence,
        "random_weights": info.is_random,
        "dtype": str(info.dtype).removeprefix("torch."),
        "context": info.config.lm.context,
        "voices": list(info.voices),
    }


def as_json(report: Report) -> dict[str, Any]:
    """Figures in bytes and seconds; null where it was not got so far."""
    return {
        "versions": report.versions,
        "device": dataclasses.asdict(report.device),
        "max_sessions": report.max_sessions,
        "model": _model_facts(report.info) if report.info else None,
        "memory": dataclasses.asdict(report.needs) if report.needs else None,
        "steps": dataclasses.asdict(report.times) if report.times else None,
        "problems": report.problems,
        "advice": report.advice,
        "verdict": verdict(report),
    }


def as_text(report: Report) -> str:
    lines = [("verdict", verdict(report))]
    lines += [("problem", problem) for problem in report.problems]
    lines += [("advice", advice) for advice in report.advice]
    lines += [*_model_lines(report), *_device_lines(report.device)]
    lines += list(report.versions.items())
    return "\n".join(f"{label:<16} {value}" for label, value in lines)


def _model_lines(report: Report) -> list[tuple[str, str]]:
    lines = []
    if info := report.info:
        about = ["random weights"] if info.is_random else []
        about += [info.licence] if info.licence else []
        about.append(f"context {info.config.lm.context}")
        lines.append(("model", f"{info.name} ({', '.join(about)})"))
        lines.append(("voices", f"{len(info.voices)}: {', '.join(info.voices)}"))
    if needs := report.needs:
        lines.append(("weights", size(needs.weight_bytes)))
        lines.append(("KV per session", size(needs.session_bytes)))
        fit = f"{needs.sessions_that_fit} sessions, whatever their speed"
        lines.append(("fit into memory", f"{fit} (asked for: {report.max_sessions})"))
    if times := report.times:
        figures = [f"{value * 1e3:.1f}" for value in (times.p50_s, times.p99_s, times.max_s)]
        shown = f"p50 {figures[0]}, p99 {figures[1]}, slowest {figures[2]} ms ({times.mode})"
        lines.append((f"{times.steps} steps", f"{shown}; other load on this machine changes it"))
        lines.append(("load", f"{times.load_s:.1f} s"))
    return lines


def _device_lines(device: Device) -> list[tuple[str, str]]:
    kernels = f", torch has {', '.join(device.kernels)}" if device.kernels else ""
    memory = f"{size(device.free_bytes)} free of {size(device.memory_bytes)}"
    return [
        ("device", f"{device.kind}: {device.name}, {device.threads} threads"),
        ("capability", device.capability + kernels),
        ("memory", memory),
    ]
