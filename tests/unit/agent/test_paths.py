"""Paths that commands are given are refused before torch is imported, which takes seconds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.refusals import refused

pytestmark = pytest.mark.unit
LONG = "a" * 300 + ".wav"
"""Longer than a name can be: it is an error even to look for it."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A recording `in.wav`, a `link.wav` to it, a `text.wav` that is none, no model in `empty`.

    `round.wav` leads to itself, and `zip.npy` is the beginning of an archive.
    """
    soundfile.write(tmp_path / "in.wav", np.zeros(24_000, np.float32), 24_000)
    (tmp_path / "text.wav").write_text("This is no recording.")
    (tmp_path / "link.wav").symlink_to("in.wav")
    (tmp_path / "empty").mkdir()
    (tmp_path / "round.wav").symlink_to("about.wav")
    (tmp_path / "about.wav").symlink_to("round.wav")
    (tmp_path / "zip.npy").write_bytes(b"PK\x03\x04 and no more")
    return tmp_path


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("offline --input gone.wav --output o.wav", "gone.wav: cannot be read (No such file"),
        ("offline --input text.wav --output o.wav", "text.wav: is no audio file"),
        ("offline --codes gone.npy --output o.wav", "gone.npy is no .npy file"),
        ("offline --codes zip.npy --output o.wav", "zip.npy is no .npy file"),
        ("offline --input in.wav --output no/o.wav", "there is no folder no"),
        ("offline --input in.wav --output o.wav --model no/such/model", "no model folder"),
        ("offline --input in.wav --output o.wav --model empty", "empty has no config.json"),
        ("offline --input in.wav --output o.wav --text ./o.wav", "o.wav is named twice"),
        ("offline --input in.wav --output link.wav", "link.wav is named twice"),
        (f"offline --input in.wav --output {LONG}", f"{LONG}: cannot be written (File name too"),
        ("offline --input in.wav --text round.wav", "round.wav: cannot be written (Too many"),
        ("console --input in.wav --output in.wav", "in.wav is named twice"),
        ("console --input gone.wav", "gone.wav: cannot be read (No such file"),
        ("console --input text.wav", "text.wav: is no audio file"),
        ("console --input in.wav --output no/o.wav", "no/o.wav: cannot be written"),
        ("console --model no/such/model --output o.wav", "no model folder"),
        ("console --input in.wav --output /dev/full", "/dev/full: cannot be written"),
        ("console --model demo --output round.wav", "round.wav: cannot be written"),
        (f"console --output {LONG}", f"{LONG}: cannot be written"),
        (f"console --input {LONG} --output o.wav", f"{LONG}: cannot be read"),
        (f"offline --input {LONG} --output o.wav", f"{LONG}: cannot be read"),
        ("voices --model no/such/model", "no model folder"),
        ("voices --model ~no-such-user/model", "no-such-user/model cannot be looked for"),
        ("voices check --model empty", "empty has no config.json"),
        ("voices add Ada gone.wav", "gone.wav: cannot be read (No such file"),
        ("voices add Ada text.wav", "text.wav: is no audio file"),
        ("voices add Ada in.wav --model in.wav", "in.wav is a file"),
    ],
)
def test_a_wrong_path_is_one_line_before_torch(folder: Path, line: str, named: str) -> None:
    assert named in refused(*line.split(), folder=folder)
    assert not (folder / "o.wav").exists()
