"""Bad input and bad surroundings: one line with what, where and what to do, never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import soundfile

from agent.__main__ import main
from model.checkpoint.names import (
    CONFIG_NAME,
    MIMI_PATTERN,
    MODEL_NAME,
    TOKENIZER_PATTERN,
    VOICES_FOLDER,
)
from tests.e2e.processes import API_KEY, API_SECRET, ROOT, LiveKitServer, free_port

pytestmark = pytest.mark.e2e

PATIENCE_SECONDS = 120
AS_ANYBODY = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
"""Takes from root what lets it read every file."""
WAV_HEADER_BYTES = 44


@pytest.fixture(scope="module")
def environment(livekit: LiveKitServer) -> dict[str, str]:
    """Of a command that would start, were it not for what a test changes."""
    settings = {
        "LIVEKIT_URL": livekit.url,
        "LIVEKIT_API_KEY": API_KEY,
        "LIVEKIT_API_SECRET": API_SECRET,
        "PERSONAPLEX_PORT": str(free_port()),
    }
    return {**os.environ, **settings}


def refusal(words: list[str], environment: dict[str, str], prefix: tuple[str, ...] = ()) -> str:
    """Run the real command in a process of its own; the one line that it says."""
    command = [*prefix, sys.executable, "-m", "agent", *words]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    print(done.stderr)
    assert done.returncode == 2 and done.stdout == ""
    return the_line(done.stderr)


def the_line(stderr: str) -> str:
    lines = stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith(("error: ", "driver: ")), stderr
    return lines[0]


@pytest.mark.parametrize("name", ["LIVEKIT_API_KEY", "LIVEKIT_API_SECRET"])
def test_wrong_key_or_secret(
    name: str, environment: dict[str, str], livekit: LiveKitServer
) -> None:
    wrong = {name: "wrong-but-long-enough-to-be-a-secret-0123"}
    line = refusal(["start"], environment | wrong)
    assert livekit.url in line and "check LIVEKIT_API_KEY and LIVEKIT_API_SECRET" in line


@pytest.mark.parametrize("url", ["ws://127.0.0.1:{port}", "ws://no-such-host.invalid"])
def test_unreachable_livekit(url: str, environment: dict[str, str]) -> None:
    address = url.format(port=free_port())
    line = refusal(["start"], environment | {"LIVEKIT_URL": address})
    assert f"no LiveKit server at {address}" in line and "check LIVEKIT_URL" in line


@pytest.mark.parametrize("url", ["127.0.0.1:7880", "ftp://127.0.0.1"])
def test_a_url_that_is_none(url: str, environment: dict[str, str]) -> None:
    line = refusal(["start"], environment | {"LIVEKIT_URL": url})
    assert f"LIVEKIT_URL is {url!r}" in line and "must begin with ws://" in line


def test_nothing_set(environment: dict[str, str]) -> None:
    names = ("LIVEKIT_URL", "LIVEKIT_API_KEY", "LIVEKIT_API_SECRET")
    line = refusal(["start"], {k: v for k, v in environment.items() if k not in names})
    assert " and ".join(names) + " not set" in line and "demo" in line


@contextmanager
def unreadable(path: Path) -> Iterator[None]:
    mode = path.stat().st_mode
    path.chmod(0)
    try:
        yield
    finally:
        path.chmod(mode)


def without_privileges() -> tuple[str, ...]:
    return AS_ANYBODY if os.geteuid() == 0 else ()


# Models.


def linked(checkpoint: Path, folder: Path) -> Path:
    """A checkpoint that a test may spoil."""
    for path in checkpoint.iterdir():
        (folder / path.name).symlink_to(path)
    return folder


def lost(checkpoint: Path, folder: Path, pattern: str) -> Path:
    for path in linked(checkpoint, folder).glob(pattern):
        path.unlink()
    return folder


def test_a_model_folder_that_is_missing(environment: dict[str, str], tmp_path: Path) -> None:
    line = refusal(["start", "--model", str(tmp_path / "nowhere")], environment)
    assert f"there is no model folder '{tmp_path / 'nowhere'}'; name a folder" in line


def test_a_model_folder_that_is_incomplete(
    tiny_checkpoint: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    folder = lost(tiny_checkpoint, tmp_path, MODEL_NAME)
    line = refusal(["start", "--model", str(folder)], environment)
    assert f"the model folder {folder} has no {MODEL_NAME}; fetch" in line


@pytest.fixture
def offline(
    tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> Callable[[Path], str]:
    """Runs `offline` within this process; its one line about a model."""
    folder = tmp_path_factory.mktemp("offline")
    words = ["--input", str(wav(folder / "in.wav")), "--output", str(folder / "out.wav")]

    def run(model: Path) -> str:
        capsys.readouterr()
        assert main(["offline", *words, "--model", str(model)]) == 2
        printed = capsys.readouterr()
        assert printed.out == "" and not (folder / "out.wav").exists()
        return the_line(printed.err)

    return run


PATTERNS = (CONFIG_NAME, MODEL_NAME, MIMI_PATTERN, TOKENIZER_PATTERN, VOICES_FOLDER)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_each_part_of_a_model_is_missed_by_name(
    pattern: str, tiny_checkpoint: Path, tmp_path: Path, offline: Callable[[Path], str]
) -> None:
    line = offline(lost(tiny_checkpoint, tmp_path, pattern))
    assert f"{tmp_path} has no" in line and pattern in line and "fetch" in line


@pytest.mark.parametrize("kind", ["folder", "empty"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_each_part_of_a_model_that_is_none_is_named(
    pattern: str, kind: str, tiny_checkpoint: Path, tmp_path: Path, offline: Callable[[Path], str]
) -> None:
    """A folder where a file belongs, or nothing in what should hold something."""
    (name,) = (path.name for path in tiny_checkpoint.glob(pattern))
    spoilt = lost(tiny_checkpoint, tmp_path, pattern) / name
    if kind == "folder" or pattern == VOICES_FOLDER:
        spoilt.mkdir()
    else:
        spoilt.touch()
    line = offline(tmp_path)
    assert str(spoilt) in line and "fetch" in line


@pytest.mark.parametrize("part", [MODEL_NAME, VOICES_FOLDER])
def test_a_model_that_may_not_be_read(
    part: str, tiny_checkpoint: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "locked"
    folder.mkdir()
    locked = lost(tiny_checkpoint, folder, part) / part
    if part == VOICES_FOLDER:
        locked.mkdir()
    else:
        locked.touch()
    with unreadable(locked):
        line = refusal(["start", "--model", str(folder)], environment, without_privileges())
    assert f"{locked} may not be read" in line and "permissions" in line


def test_a_voice_that_is_none(
    tiny_checkpoint: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    words = ["start", "--model", str(tiny_checkpoint), "--voice", "NOBODY.pt"]
    line = refusal(words, environment)
    assert "--voice NOBODY.pt: there is no such voice; there are" in line


# Recordings.


def wav(path: Path, seconds: float = 0.16) -> Path:
    soundfile.write(path, np.full(round(seconds * 24_000), 0.1, np.float32), 24_000)
    return path


def no_wav(path: Path) -> None:
    path.write_text("This is no recording.")


def nothing(path: Path) -> None:
    path.touch()


def half_a_header(path: Path) -> None:
    path.write_bytes(wav(path).read_bytes()[: WAV_HEADER_BYTES // 2])


def a_header_alone(path: Path) -> None:
    path.write_bytes(wav(path).read_bytes()[:WAV_HEADER_BYTES])


def no_file(path: Path) -> None:
    assert not path.exists()


UNUSABLE = [
    (no_wav, "no audio file that can be read"),
    (nothing, "no audio file that can be read"),
    (half_a_header, "no audio file that can be read"),
    (a_header_alone, "has no samples"),
    (no_file, "cannot be read (No such file or directory)"),
    (Path.mkdir, "cannot be read (Is a directory)"),
]


def commands(source: Path, folder: Path) -> tuple[list[str], ...]:
    """Each way to read a recording; `offline` and `console` share theirs."""
    output = ["--output-dir", str(folder)]
    return (
        ["offline", "--input", str(source), "--output", str(folder / "out.wav")],
        ["driver", "--mode", "probe", "--input", str(source), *output],
    )


@pytest.mark.parametrize(("make", "what"), UNUSABLE)
def test_a_recording_that_is_none(
    make: Callable[[Path], None], what: str, environment: dict[str, str], tmp_path: Path
) -> None:
    source = tmp_path / "in.wav"
    make(source)
    for words in commands(source, tmp_path):
        line = refusal(words, environment)
        assert f"{source}: " in line and what in line and "; give a WAV" in line


def test_a_recording_that_may_not_be_read(environment: dict[str, str], tmp_path: Path) -> None:
    source = wav(tmp_path / "in.wav")
    with unreadable(source):
        for words in commands(source, tmp_path):
            line = refusal(words, environment, without_privileges())
            assert f"{source}: cannot be read (Permission denied); give a WAV" in line
