"""The command `offline`: any recording in, a call's audio, text and tokens out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from agent.__main__ import main
from agent.results import Result, spoken_lines
from model.random_weights import voice_like_sound

pytestmark = pytest.mark.unit


def recording(path: Path, seconds: float, rate: int, channels: int = 1) -> Path:
    sound = voice_like_sound(int(seconds * rate), 1)
    soundfile.write(path, np.stack([sound] * channels, axis=1), rate)
    return path


def offline(model: Path, *words: object, tail_s: float = 0) -> int:
    options = ["--model", str(model), "--tail-s", str(tail_s)]
    return main(["offline", *options, *map(str, words)])


@pytest.mark.parametrize(
    ("suffix", "rate", "channels"), [("wav", 44_100, 2), ("flac", 16_000, 1), ("mp3", 24_000, 1)]
)
def test_any_format_and_rate_and_one_text_a_frame(
    tiny_checkpoint: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    suffix: str,
    rate: int,
    channels: int,
) -> None:
    source = recording(tmp_path / f"in.{suffix}", 0.5, rate, channels)
    out, text = tmp_path / "out.wav", tmp_path / "out.json"
    assert offline(tiny_checkpoint, "--input", source, "--output", out, "--text", text) == 0
    sound, out_rate = soundfile.read(out)
    spoken = soundfile.info(source).duration
    assert out_rate == 24_000
    assert len(sound) == pytest.approx(spoken * 24_000, abs=1)
    entries = json.loads(text.read_text())
    assert len(entries) == -(-len(sound) // 1920)
    assert all(isinstance(entry, str) for entry in entries)
    said = capsys.readouterr().err
    assert "real-time factor" in said and "random weights" in said


def test_the_answer_has_time_after_the_input(tiny_checkpoint: Path, tmp_path: Path) -> None:
    """Each input of a batch has its tail; frames before it are what they are without one."""
    sources = [recording(tmp_path / f"{k}.wav", k * 0.08, 24_000) for k in (4, 9)]
    runs = []
    for tail_frames in (0, 5):
        sounds = [tmp_path / f"{tail_frames}-{row}.wav" for row in range(2)]
        tokens = [tmp_path / f"{tail_frames}-{row}.npz" for row in range(2)]
        words = ["--input", *sources, "--output", *sounds, "--tokens", *tokens]
        assert offline(tiny_checkpoint, *words, tail_s=tail_frames * 0.08) == 0
        runs.append([np.load(path)["agent"] for path in tokens])
        lengths = [soundfile.info(path).frames for path in sounds]
        assert lengths == [(k + tail_frames) * 1920 for k in (4, 9)]
    for without, with_tail in zip(*runs, strict=True):
        assert np.array_equal(without, with_tail[: len(without)])


@pytest.mark.parametrize("tail", ["-1", "nan", "inf", "long", "3601", "1e9"])
@pytest.mark.parametrize("command", ["offline", "console"])
def test_a_tail_that_is_none_is_refused(
    command: str, tail: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([command, "--input", "in.wav", f"--tail-s={tail}"])
    assert "--tail-s" in capsys.readouterr().err.splitlines()[-1]


def test_several_inputs_are_one_batch_in_which_nobody_hears_anybody(
    tiny_checkpoint: Path, tmp_path: Path
) -> None:
    lengths = (4, 7, 9)
    sources = [recording(tmp_path / f"{k}.wav", k * 0.08, 24_000) for k in lengths]
    runs = []
    for neighbour in (1, 2):
        batch = [sources[0], sources[neighbour]]
        outputs = [tmp_path / f"{neighbour}-{row}.npz" for row in range(2)]
        assert offline(tiny_checkpoint, "--input", *batch, "--tokens", *outputs) == 0
        assert [len(np.load(path)["text"]) for path in outputs] == [4, lengths[neighbour]]
        runs.append(np.load(outputs[0]))
    assert np.array_equal(runs[0]["text"], runs[1]["text"])
    assert np.array_equal(runs[0]["agent"], runs[1]["agent"])


def test_tokens_are_written_as_emitted(tiny_checkpoint: Path, tmp_path: Path) -> None:
    """In the file that was named, whatever its ending."""
    source, tokens = recording(tmp_path / "in.wav", 0.5, 24_000), tmp_path / "out.bin"
    assert offline(tiny_checkpoint, "--input", source, "--tokens", tokens) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"in.wav", "out.bin"}
    saved = np.load(tokens)
    assert saved["text"].shape == (7,) and saved["agent"].shape == (7, 8)
    assert saved["text"].dtype == saved["agent"].dtype == np.int64


def test_codes_take_the_place_of_sound(tiny_checkpoint: Path, tmp_path: Path) -> None:
    codes = np.random.default_rng(1).integers(2048, size=(8, 5))
    np.save(tmp_path / "in.npy", codes)
    out, first, again = (tmp_path / name for name in ("out.wav", "a.npz", "b.npz"))
    source = ["--codes", tmp_path / "in.npy"]
    assert offline(tiny_checkpoint, *source, "--output", out, "--tokens", first) == 0
    assert offline(tiny_checkpoint, *source, "--greedy", "--tokens", again) == 0
    assert soundfile.info(out).frames == 5 * 1920
    assert np.array_equal(np.load(first)["agent"], np.load(again)["agent"])


def test_a_seed_draws_repeatably_and_differently_from_greedy(
    tiny_checkpoint: Path, tmp_path: Path
) -> None:
    np.save(tmp_path / "in.npy", np.random.default_rng(2).integers(2048, size=(8, 6)))
    runs = []
    for k, choice in enumerate((["--seed", 7], ["--seed", 7], ["--seed", 8], ["--greedy"])):
        path = tmp_path / f"{k}.npz"
        source = ["--codes", tmp_path / "in.npy"]
        assert offline(tiny_checkpoint, *source, *choice, "--tokens", path) == 0
        runs.append(np.load(path)["agent"].tolist())
    assert runs[0] == runs[1]
    assert runs[0] != runs[2] and runs[0] != runs[3]


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error:")]
    assert len(lines) == 1
    return lines[0]


def test_a_recording_that_is_none_is_one_line(
    tiny_checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "in.wav"
    source.write_text("This is no recording.")
    assert offline(tiny_checkpoint, "--input", source, "--output", tmp_path / "o.wav") != 0
    assert "in.wav" in one_line(capsys)
    assert not (tmp_path / "o.wav").exists()


def test_a_recording_that_is_missing_is_one_line(
    tiny_checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--input", tmp_path / "gone.wav", "--output", tmp_path / "o.wav"]
    assert offline(tiny_checkpoint, *arguments) != 0
    assert "gone.wav" in one_line(capsys)


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        ([], "nothing would be written"),
        (["--output", "a.wav", "b.wav"], "--output names 2 files for 1 inputs"),
        (["--output", "no/such/folder/o.wav"], "no folder"),
        (["--output", "."], "--output .: that is a folder"),
        (["--text", "."], "--text .: that is a folder"),
        (["--tokens", "."], "--tokens .: that is a folder"),
        (["--output", "o.wav", "--persona", "\udcff"], "no valid text"),
        (["--output", "o.wav", "--voice", "../x.pt"], "no voice"),
        (["--output", "o.wav", "--voice", "Nobody.pt"], "RAND0.pt"),
        (["--output", "o.wav", "--persona", "why " * 400], "positions"),
        (["--output", "o.wav", "--model", "/no/such/model"], "/no/such/model"),
    ],
)
def test_bad_input_is_one_line(
    tiny_checkpoint: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    extra: list[str],
    named: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    source = recording(tmp_path / "in.wav", 0.2, 24_000)
    assert offline(tiny_checkpoint, "--input", source, *extra) != 0
    assert named in one_line(capsys)


def test_what_has_no_room_is_one_line_and_the_rest_is_written(
    tiny_checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = recording(tmp_path / "in.wav", 0.2, 24_000)
    good = [tmp_path / name for name in ("o.wav", "o.json", "o.npz")]
    flags = ("--output", "--text", "--tokens")
    for bad in range(3):
        paths = [Path("/dev/full") if row == bad else path for row, path in enumerate(good)]
        words = [word for pair in zip(flags, paths, strict=True) for word in pair]
        assert offline(tiny_checkpoint, "--input", source, *words) == 2
        assert "/dev/full: cannot be written" in one_line(capsys)
        assert [path.exists() for path in good] == [row != bad for row in range(3)]
        for path in good:
            path.unlink(missing_ok=True)


def said(*pieces: str) -> list[str]:
    """The lines of frames with these pieces of text."""
    tokens = [{"PAD": 3, "EPAD": 0}.get(piece, 9) for piece in pieces]
    return spoken_lines(Result(texts=list(pieces), tokens=tokens))


def test_words_are_printed_as_spaced_and_a_long_pause_ends_a_line() -> None:
    """Ten frames without words, as in `console`."""
    assert said(*["PAD"] * 30, "EPAD") == []
    assert said("PAD", "EPAD", " Hel", "lo", "", ",", " you") == [" Hello, you"]
    assert said("PAD", " Yes", *["PAD"] * 9, ".", *["PAD"] * 10, " No") == [" Yes.", " No"]


def test_what_was_said_and_what_was_written_is_printed(
    tiny_checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The words alone on stdout, named by their input where there are several."""
    sources = [recording(tmp_path / f"{k}.wav", 1.0, 24_000) for k in range(2)]
    texts = [tmp_path / f"{k}.json" for k in range(2)]
    assert offline(tiny_checkpoint, "--input", *sources, "--text", *texts) == 0
    printed = capsys.readouterr()
    for source, text in zip(sources, texts, strict=True):
        pieces = [piece for piece in json.loads(text.read_text()) if piece not in ("PAD", "EPAD")]
        lines = [line for line in printed.out.splitlines() if line.startswith(f"{source}:")]
        words = "".join(line.removeprefix(f"{source}:") for line in lines)
        assert words == "".join(pieces)
        assert f"{text} written" in printed.err.splitlines()


@pytest.mark.parametrize(
    ("codes", "named"),
    [
        (np.zeros((7, 5), np.int64), "[8, T]"),
        (np.zeros((8, 0), np.int64), "[8, T]"),
        (np.zeros((8, 5)), "integers"),
        (np.full((8, 5), 2048), "0 to 2047"),
        (np.array([{"a": 1}], dtype=object), "no .npy file"),
    ],
    ids=["seven rows", "empty", "floats", "out of range", "pickled"],
)
def test_codes_that_do_not_fit_are_one_line(
    tiny_checkpoint: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    codes: np.ndarray,
    named: str,
) -> None:
    np.save(tmp_path / "in.npy", codes)
    arguments = ["--codes", tmp_path / "in.npy", "--tokens", tmp_path / "o.npz"]
    assert offline(tiny_checkpoint, *arguments) != 0
    assert named in one_line(capsys)
