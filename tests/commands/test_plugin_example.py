"""The plugin's example as a command: short, and clear about what is not set."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.e2e.processes import ROOT

pytestmark = pytest.mark.e2e

EXAMPLE = ROOT / "agent" / "plugin" / "examples" / "agent.py"
LONGEST_EXAMPLE = 40
VARIABLES = ("LIVEKIT_URL", "LIVEKIT_API_KEY", "LIVEKIT_API_SECRET")


def test_the_example_is_short() -> None:
    assert len(EXAMPLE.read_text().splitlines()) < LONGEST_EXAMPLE


@pytest.mark.parametrize("missing", VARIABLES)
def test_a_missing_variable_is_named_in_one_line(missing: str) -> None:
    env = {**os.environ, **dict.fromkeys(VARIABLES, "any"), missing: ""}
    command = [sys.executable, str(EXAMPLE), "dev"]
    ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", f"not set: {missing}\n")
