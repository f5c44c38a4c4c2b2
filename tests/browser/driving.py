"""How a test drives the page: one scenario of `drive.mjs` and what was seen."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from tests.e2e.processes import ROOT

DRIVER_LIMIT_S = 240


def drive(scenario: str, **options: Any) -> dict[str, Any]:
    command = ["node", str(ROOT / "tests/browser/drive.mjs"), scenario, json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DRIVER_LIMIT_S)
    assert done.returncode == 0, done.stderr[-3000:]
    seen: dict[str, Any] = json.loads(done.stdout)
    print(json.dumps(seen, indent=1))
    return seen
