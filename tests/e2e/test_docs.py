"""Programs that the documents print, run as they stand there."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from base64 import urlsafe_b64decode
from pathlib import Path

import pytest
import soundfile

from model import SAMPLE_RATE, Engine
from tests.e2e.asking import QUESTIONS, spoken, squeeze
from tests.e2e.demo_call import GREETING
from tests.e2e.patience import within
from tests.e2e.processes import API_KEY, API_SECRET, ROOT
from tests.fakes.server import serving, until_free

pytestmark = pytest.mark.e2e
PRINTED_SERVER = "//127.0.0.1:8000"


def programs(document: str) -> list[str]:
    """The Python blocks of a document."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


async def output_of(program: str, folder: Path, **env: str) -> str:
    """Run it in a folder of its own; what it printed. Fails where it does."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program),
        cwd=folder,
        env={**os.environ, **env},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with within("the program to end"):
        out, error = await process.communicate()
    assert process.returncode == 0, error.decode()
    return out.decode()


@pytest.mark.parametrize("number", [0, 1], ids=["openai", "own client"])
async def test_the_realtime_page(
    demo_engine: Engine, tmp_path: Path, number: int
) -> None:  # contract: C2 F2
    """Either program has the demo's greeting and its answer to a question."""
    program = programs("docs/realtime.md")[number]
    question = QUESTIONS[0]
    soundfile.write(tmp_path / "question.wav", spoken(question.words), SAMPLE_RATE, "PCM_16")
    async with serving(demo_engine) as server:
        assert PRINTED_SERVER in program
        program = program.replace(PRINTED_SERVER, f"//127.0.0.1:{server.port}")
        printed = await output_of(program, tmp_path, PYTHONPATH=str(ROOT))
        await until_free(server)
    assert squeeze(printed) == f"{GREETING} {question.answer}"


async def test_the_token_for_the_plugins_example(tmp_path: Path) -> None:
    program = programs("agent/plugin/README.md")[-1]
    env = {"LIVEKIT_API_KEY": API_KEY, "LIVEKIT_API_SECRET": API_SECRET}
    payload = (await output_of(program, tmp_path, **env)).split(".")[1]
    claims = json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    assert claims["iss"] == API_KEY
    assert claims["video"]["roomJoin"] is True
    assert [agent["agentName"] for agent in claims["roomConfig"]["agents"]] == ["bakery"]
