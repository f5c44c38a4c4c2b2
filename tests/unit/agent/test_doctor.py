"""The command `doctor`: what would not fit is said before weights load; no secret is printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent import doctor
from agent.__main__ import main
from model import describe, inspect_device
from model.config import ModelConfig
from model.diagnose import session_bytes
from model.host import can_run
from model.presets import TINY

pytestmark = pytest.mark.unit


def examine(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, dict[str, Any]]:
    code = main(["doctor", "--json", *map(str, words)])
    return code, json.loads(capsys.readouterr().out)


def test_a_good_checkpoint_is_timed_and_judged(
    tiny_checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, report = examine(capsys, "--model", tiny_checkpoint, "--max-sessions", 3)
    assert code == 0 and report["problems"] == []
    assert report["steps"]["steps"] == 50 and report["steps"]["sessions"] == 3
    assert 0 < report["steps"]["p50_s"] <= report["steps"]["p99_s"] <= report["steps"]["max_s"]
    assert "of 80 ms" in report["verdict"]
    assert report["model"]["voices"] == ["RAND0.pt"]
    assert report["model"]["random_weights"] is True
    assert report["memory"]["sessions_that_fit"] >= 3


def test_what_does_not_fit_is_said_before_weights_load(
    tiny_checkpoint: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(doctor, "time_steps")
    code, report = examine(capsys, "--model", tiny_checkpoint, "--max-sessions", 100_000_000)
    assert code == 1
    assert report["steps"] is None
    fit = report["memory"]["sessions_that_fit"]
    assert f"--max-sessions to {fit}" in report["problems"][0]
    assert report["verdict"] == "will not run here"


@pytest.mark.parametrize("name", ["/no/such/folder", "nowhere"])
def test_a_model_that_is_missing_is_a_problem_not_a_traceback(
    capsys: pytest.CaptureFixture[str], name: str
) -> None:
    code, report = examine(capsys, "--model", name)
    assert code == 1
    assert name in report["problems"][0]


def test_the_table_is_one_block_without_secrets(
    tiny_checkpoint: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = {
        "HF_TOKEN": "hf_example_token",
        "LIVEKIT_API_KEY": "example-key",
        "LIVEKIT_API_SECRET": "example-secret",
        "PERSONAPLEX_API_KEYS": "example-bearer",
        "PERSONAPLEX_PERSONA": "You are a private person.",
    }
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME", str(tiny_checkpoint.parent))
    monkeypatch.setattr(
        doctor, "time_steps", lambda *_: doctor.StepTimes("cpu", 2, 50, 1, 0.01, 0.02, 0.03)
    )
    assert main(["doctor", "--model", str(tiny_checkpoint)]) == 0
    text = capsys.readouterr().out
    assert not any(value in text for value in secrets.values())
    assert f"~/{tiny_checkpoint.name}" in text and str(tiny_checkpoint.parent) not in text
    assert text.startswith("verdict") and "\n\n" not in text
    for label in ("device", "weights", "KV per session", "voices", "torch", "memory"):
        assert label in text


@pytest.mark.parametrize(
    ("p50", "p99", "words"),
    [(0.02, 0.05, "real time"), (0.05, 0.09, "tight"), (0.1, 0.2, "too slow")],
)
def test_the_verdict_follows_the_frame(
    tiny_checkpoint: Path, p50: float, p99: float, words: str
) -> None:
    times = doctor.StepTimes("cpu", 2, 50, 1.0, p50, p99, p99)
    report = doctor.Report(
        {}, inspect_device("cpu"), 2, describe(str(tiny_checkpoint)), times=times
    )
    assert doctor.verdict(report).startswith(words)


def test_kv_of_the_released_7b() -> None:
    import torch

    temporal = 2 * 32 * 3008 * 4096 * 2
    codec = 2 * 2 * 8 * 256 * 512 * 4
    assert session_bytes(ModelConfig(), torch.bfloat16) == temporal + codec


def test_the_estimate_is_the_memory_that_a_slot_takes(tiny_checkpoint: Path) -> None:
    import torch

    from model.presets import SEED
    from model.random_weights import build_lm, build_mimi, random_weights
    from model.step import FrameStep

    weights = random_weights(TINY, SEED)
    step = FrameStep(build_lm(TINY.lm, weights.lm), build_mimi(TINY, weights.mimi), TINY, 1)
    rings = {name: t for name, t in step.state_tensors(0).items() if "carry" not in name}
    taken = sum(tensor.nbytes for tensor in rings.values())
    assert session_bytes(TINY, torch.float32) == taken


@pytest.mark.parametrize(
    ("kernels", "capability", "runs"),
    [
        (("sm_80", "sm_90"), (9, 0), True),
        (("sm_80", "sm_90"), (8, 6), True),
        (("sm_80", "sm_90"), (12, 0), False),
        (("sm_80", "compute_90"), (12, 0), True),
        (("sm_90a",), (9, 0), True),
        (("sm_100a",), (10, 3), False),
        (("sm_120",), (9, 0), False),
        ((), (9, 0), False),
    ],
)
def test_which_devices_a_torch_build_can_run(
    kernels: tuple[str, ...], capability: tuple[int, int], runs: bool
) -> None:
    assert can_run(kernels, *capability) is runs
