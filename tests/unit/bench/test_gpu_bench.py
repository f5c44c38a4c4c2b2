"""The GPU stages run dry on the CPU: each writes its file, and a second run skips them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.gpu_stages import STAGES

pytestmark = pytest.mark.unit
ROOT = Path(__file__).parents[3]
TIMEOUT = 600


def test_every_stage_writes_its_json_and_is_not_run_twice(tmp_path: Path) -> None:
    command = ["sh", str(ROOT / "tests/bench/gpu.sh"), str(tmp_path), "--dry"]
    environment = {"PYTHON": sys.executable, "PATH": "/usr/bin:/bin"}
    for _ in range(2):
        subprocess.run(command, check=True, cwd=ROOT, env=environment, timeout=TIMEOUT)
        written = {path.stem: path.stat().st_mtime_ns for path in tmp_path.glob("*.json")}
    assert set(written) == set(STAGES)
    for name in STAGES:
        assert json.loads((tmp_path / f"{name}.json").read_text())["dry"] is True
