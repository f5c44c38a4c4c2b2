"""Runs a command that has to refuse its input before it imports torch, which takes seconds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.e2e.processes import ROOT

RUN_IT = """
import sys
from agent.__main__ import main

code = main(sys.argv[1:])
sys.exit(code if "torch" not in sys.modules else "torch was imported")
"""


def refused(*words: str, folder: Path = ROOT) -> str:
    """The one line of a command that ends before it has imported torch."""
    environment = {name: value for name, value in os.environ.items() if "LIVEKIT" not in name}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), environment.get("PYTHONPATH", "")])
    run = [sys.executable, "-c", RUN_IT, *words]
    done = subprocess.run(run, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    return line
