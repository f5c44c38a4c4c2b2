"""Bad input and bad surroundings: one line with what, where and what to do, never a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.__main__ import main
from model.checkpoint.names import (
    CONFIG_NAME,
    MIMI_PATTERN,
    MODEL_NAME,
    TOKENIZER_PATTERN,
    VOICES_FOLDER,
)
from tests.e2e.processes import API_KEY, API_SECRET, LiveKitServer, free_port

pytestmark = pytest.mark.e2e


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, livekit: LiveKitServer) -> Iterator[None]:
    monkeypatch.setenv("LIVEKIT_URL", livekit.url)
    monkeypatch.setenv("LIVEKIT_API_KEY", API_KEY)
    monkeypatch.setenv("LIVEKIT_API_SECRET", API_SECRET)
    monkeypatch.setenv("PERSONAPLEX_PORT", str(free_port()))
    yield


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run `start`; its one line."""
    capsys.readouterr()
    assert main(["start", *words]) == 2
    printed = capsys.readouterr().err
    assert "Traceback" not in printed
    lines = [line for line in printed.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, printed
    return lines[0]


@pytest.fixture
def tiny(tiny_checkpoint: Path) -> tuple[str, str]:
    return "--model", str(tiny_checkpoint)


@pytest.mark.parametrize("flag", ["--api-key", "--api-secret"])
def test_wrong_key_or_secret(
    flag: str, tiny: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    line = refused(capsys, *tiny, flag, "wrong-but-long-enough-to-be-a-secret-0123")
    assert "LIVEKIT_API_KEY" in line and "LIVEKIT_API_SECRET" in line and "check" in line


@pytest.mark.parametrize("url", ["ws://127.0.0.1:{port}", "ws://no-such-host.invalid"])
def test_unreachable_livekit(
    url: str, tiny: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    address = url.format(port=free_port())
    line = refused(capsys, *tiny, "--url", address)
    assert address in line and "LIVEKIT_URL" in line


@pytest.mark.parametrize("url", ["127.0.0.1:7880", "ftp://127.0.0.1"])
def test_a_url_that_is_none(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "must begin with ws://" in refused(capsys, "--url", url)


def test_nothing_set(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("LIVEKIT_URL", "LIVEKIT_API_KEY", "LIVEKIT_API_SECRET"):
        monkeypatch.delenv(name)
    line = refused(capsys)
    assert "LIVEKIT_URL and LIVEKIT_API_KEY and LIVEKIT_API_SECRET not set" in line
    assert "demo" in line


def test_a_model_folder_that_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert "/no/such/folder" in refused(capsys, "--model", "/no/such/folder")


@pytest.mark.parametrize(
    "pattern", [CONFIG_NAME, MODEL_NAME, MIMI_PATTERN, TOKENIZER_PATTERN, VOICES_FOLDER]
)
def test_a_model_folder_that_is_incomplete(
    pattern: str, tiny_checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in tiny_checkpoint.iterdir():
        if not path.match(pattern):
            (tmp_path / path.name).symlink_to(path)
    line = refused(capsys, "--model", str(tmp_path))
    assert f"{tmp_path} has no" in line and pattern in line and "fetch" in line


def test_a_voice_that_is_none(tiny: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    line = refused(capsys, *tiny, "--voice", "NOBODY.pt")
    assert "NOBODY.pt" in line and "there are" in line


def test_a_config_that_is_no_config(
    tiny_checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in tiny_checkpoint.iterdir():
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / "config.json").unlink()
    (tmp_path / "config.json").write_text("{")
    assert "config.json" in refused(capsys, "--model", str(tmp_path))
