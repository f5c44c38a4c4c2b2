"""Names of checkpoints: folders, the demo, repositories on a loopback hub."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from model.checkpoint import locate as module
from model.checkpoint.errors import CheckpointIncomplete, CheckpointNotFound
from model.checkpoint.load import describe
from model.checkpoint.locate import files_in, locate
from tests.fakes.hub import FakeHub

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("name", ["nowhere", "/no/such/folder", "../x", "a/b/c"])
def test_a_name_that_is_nothing_is_one_line(name: str) -> None:
    with pytest.raises(CheckpointNotFound) as refused:
        locate(name)
    assert "\n" not in str(refused.value)


def test_a_file_in_the_place_of_a_folder_is_said_so(tiny_checkpoint: Path) -> None:
    with pytest.raises(CheckpointNotFound, match="is a file"):
        locate(str(tiny_checkpoint / "config.json"))


@pytest.mark.parametrize(
    ("lost", "named"),
    [
        ("config.json", "config.json"),
        ("model.safetensors", "model.safetensors"),
        ("tokenizer-mimi.safetensors", r"tokenizer\*\.safetensors"),
        ("tokenizer_spm.model", r"tokenizer\*\.model"),
    ],
)
def test_a_missing_file_is_named(copy: Path, lost: str, named: str) -> None:
    (copy / lost).unlink()
    with pytest.raises(CheckpointIncomplete, match=f"has no {named}"):
        locate(str(copy))


def test_missing_voices_are_named(copy: Path) -> None:
    (copy / "voices" / "RAND0.pt").unlink()
    (copy / "voices").rmdir()
    with pytest.raises(CheckpointIncomplete, match=r"voices\.tgz or voices/"):
        locate(str(copy))


def test_two_files_for_one_place_are_refused(copy: Path) -> None:
    (copy / "tokenizer_other.model").touch()
    with pytest.raises(CheckpointIncomplete, match="several"):
        locate(str(copy))


def test_the_released_names_are_found(tmp_path: Path) -> None:
    names = [
        "config.json",
        "model.safetensors",
        "tokenizer-e351c8d8-checkpoint125.safetensors",
        "tokenizer_spm_32k_3.model",
        "voices.tgz",
    ]
    for name in names:
        (tmp_path / name).touch()
    files = files_in("x", tmp_path)
    found = [files.config, files.model, files.mimi, files.tokenizer, files.voices]
    assert [path.name for path in found] == names


ASK = """
import sys
from model.checkpoint.errors import CheckpointError
from model.checkpoint.load import describe
for name in sys.argv[1:]:
    try:
        info = describe(name)
        print("ok", info.licence, info.voices, sep="|")
    except CheckpointError as error:
        print(type(error).__name__, error, sep="|")
"""


def ask(hub_url: str, home: Path, *names: str, token: str = "", offline: bool = False) -> list[str]:
    """Describe `names` in a process of its own, since the hub's address is read at import."""
    environ = {
        **os.environ,
        "HF_ENDPOINT": hub_url,
        "HF_HOME": str(home),
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "XDG_CACHE_HOME": str(home / "cache"),
        "HF_TOKEN": token,
        "HF_HUB_OFFLINE": "1" if offline else "0",
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
    }
    result = subprocess.run(
        [sys.executable, "-c", ASK, *names],
        env=environ,
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    return result.stdout.splitlines()


def test_repositories_of_a_hub(tiny_checkpoint: Path, tmp_path: Path) -> None:
    with FakeHub(tiny_checkpoint, token="hf_example") as hub:
        lines = ask(hub.url, tmp_path, "nvidia/personaplex-7b-v1", "open/nothing", "open/model@no")
        gated, missing, revision = lines
        assert gated.startswith("GatedRepository|")
        assert f"{hub.url}/nvidia/personaplex-7b-v1" in gated and "HF_TOKEN" in gated
        assert missing.startswith(("CheckpointNotFound|", "GatedRepository|"))
        assert "open/nothing" in missing
        assert revision.startswith("CheckpointNotFound|") and "'no'" in revision

        granted = ask(hub.url, tmp_path, "nvidia/personaplex-7b-v1@main", token="hf_example")
        assert granted == ["ok|NVIDIA Open Model License|('RAND0.pt',)"]
        assert not hub.asked_for("README.md"), "only what is read is fetched"

    cached = ask(hub.url, tmp_path, "nvidia/personaplex-7b-v1", "open/model", offline=True)
    assert cached[0] == granted[0]
    assert cached[1].startswith("HubUnreachable|") and "open/model" in cached[1]


def test_demo_is_the_bundled_folder() -> None:
    info = describe("demo")
    assert info.files.folder == module.DEMO_FOLDER
    assert not info.is_random
