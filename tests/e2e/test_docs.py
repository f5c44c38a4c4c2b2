"""Programs that the documents print, run as they stand there."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import wave
from base64 import urlsafe_b64decode
from pathlib import Path

import pytest

from tests.e2e.patience import within
from tests.e2e.processes import API_KEY, API_SECRET, ROOT
from tests.e2e.realtime import pcm16, question, server_with
from tests.fakes.answering import ANSWER
from tests.fakes.server import until_free

pytestmark = pytest.mark.e2e
PRINTED_SERVER = "http://127.0.0.1:8000"
RATE = 24_000


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


async def test_the_realtime_page(tiny_checkpoint: Path, tmp_path: Path) -> None:  # contract: F2
    [program] = programs("docs/realtime.md")
    with wave.open(str(tmp_path / "question.wav"), "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        file.writeframes(pcm16(question()))
    async with server_with("scripted", tiny_checkpoint) as server:
        assert PRINTED_SERVER in program
        printed = await output_of(program.replace(PRINTED_SERVER, server.url), tmp_path)
        await until_free(server)
    assert printed.strip() == "".join(ANSWER).strip()


async def test_the_token_for_the_plugins_example(tmp_path: Path) -> None:
    program = programs("agent/plugin/README.md")[-1]
    env = {"LIVEKIT_API_KEY": API_KEY, "LIVEKIT_API_SECRET": API_SECRET}
    payload = (await output_of(program, tmp_path, **env)).split(".")[1]
    claims = json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    assert claims["iss"] == API_KEY
    assert claims["video"]["roomJoin"] is True
    assert [agent["agentName"] for agent in claims["roomConfig"]["agents"]] == ["bakery"]
