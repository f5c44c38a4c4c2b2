"""What all tests share: the category rule, the seed, a checkpoint, and a LiveKit server.

Every test carries exactly one category marker. Long forms run with `--full` and `--slow` only. With
`CI=true` a skipped test is a failure, unless it is marked `gpu`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
import torch

from model import Engine, load_engine
from tests.e2e.processes import LiveKitServer

os.environ.setdefault("NO_TORCH_COMPILE", "1")
# A runner in the background has SIGINT ignored, and every process of a test would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

CATEGORIES = {"unit", "parity", "e2e", "browser", "gpu"}
SEED = int(os.environ.get("PERSONAPLEX_TEST_SEED", "20"))
IN_CI = os.environ.get("CI") == "true"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run the tests marked full")
    parser.addoption("--slow", action="store_true", help="run the tests marked slow")


def pytest_report_header() -> str:
    return f"seed: {SEED} (PERSONAPLEX_TEST_SEED)"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _demand_category(items)
    asked = {name for name in ("full", "slow") if config.getoption(f"--{name}")}
    left_out = [item for item in items if _marks(item) & {"full", "slow"} - asked]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    if not torch.cuda.is_available():
        for item in items:
            if "gpu" in _marks(item):
                item.add_marker(pytest.mark.skip(reason="no CUDA device"))


def _demand_category(items: list[pytest.Item]) -> None:
    bad = [item.nodeid for item in items if len(_marks(item) & CATEGORIES) != 1]
    if bad:
        listed = "\n  ".join(bad[:10])
        raise pytest.UsageError(f"each test needs one of {sorted(CATEGORIES)}:\n  {listed}")


def _marks(item: pytest.Item) -> set[str]:
    return {mark.name for mark in item.iter_markers()}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Iterator[None]:
    report = yield
    if IN_CI and report.skipped and not hasattr(report, "wasxfail") and "gpu" not in _marks(item):
        report.outcome = "failed"
        report.longrepr = f"skipped where nothing may be: {report.longrepr}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests counted is part of the run's report, also where all is well."""
    for report in terminalreporter.getreports("passed"):
        if report.when == "call" and "figures" in report.keywords:
            terminalreporter.write_sep("-", f"figures of {report.nodeid}")
            terminalreporter.write(report.capstdout)


@pytest.fixture
def rng() -> Random:
    """Randomness of one test, the same in every run with the same seed."""
    return Random(SEED)


@pytest.fixture(autouse=True)
def _seeded_torch() -> None:
    torch.manual_seed(SEED)


@pytest.fixture(scope="session")
def tiny_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a checkpoint with random weights, quick enough to be stepped in a test."""
    from model.presets import write_tiny_checkpoint

    folder = tmp_path_factory.mktemp("tiny")
    write_tiny_checkpoint(folder, seed=SEED)
    return folder


@pytest.fixture(scope="module")
def demo_engine() -> Iterator[Engine]:
    """The bundled demo with two slots, for tests that need no process of their own."""
    from tests.e2e.asking import CHECKPOINT

    engine = load_engine(str(CHECKPOINT), max_sessions=2, device="cpu")
    yield engine
    engine.shutdown()


@pytest.fixture(scope="module")
def livekit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKitServer]:
    """A `livekit-server` of this module's own."""
    server = LiveKitServer(tmp_path_factory.mktemp("livekit"))
    try:
        server.start()
        yield server
    finally:
        server.stop()
