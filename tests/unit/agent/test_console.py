"""The console: a whole call between two WAV files, and the sound card's side of it on a fake."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile

from agent import devices, loading
from agent.__main__ import main
from agent.command import CommandError
from agent.console import ConsoleSink, converse
from agent.devices import SoundCard, WavOutlet, WavSource
from agent.interrupts import cancelled_by_signals
from agent.settings import Settings
from agent.sink import OutputFrame, ResponseEnd, ResponseInfo
from model import FRAME_SAMPLES, SAMPLE_RATE, Pcm
from tests.e2e.patience import PATIENCE_SECONDS
from tests.fakes.disk import no_file_beyond
from tests.fakes.echo import EchoEngine

pytestmark = pytest.mark.unit
UNUSED = SoundCard(microphone=False, speaker=False)


@pytest.fixture
def spoken(tmp_path: Path) -> Path:
    """Half a second of tone at 48 kHz, in two channels."""
    path = tmp_path / "in.wav"
    tone = 0.3 * np.sin(2 * np.pi * 440 * np.arange(24_000) / 48_000)
    soundfile.write(path, np.stack([tone, tone], axis=1), 48_000)
    return path


async def test_every_frame_of_a_file_is_answered(  # contract: C6
    spoken: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = EchoEngine(max_sessions=1)
    out = tmp_path / "out.wav"
    source = WavSource(spoken, tail_s=1.0, paced=False)
    await converse(engine, Settings(), UNUSED, source, WavOutlet(out))
    heard, rate = soundfile.read(out)
    assert rate == SAMPLE_RATE
    assert len(heard) == 19 * FRAME_SAMPLES, "half a second and one of silence, padded"
    assert np.abs(heard[: SAMPLE_RATE // 2]).max() == pytest.approx(0.3, abs=0.02)
    assert engine.stats().used == 0
    assert capsys.readouterr().out.startswith("agent:")


def test_the_command_answers_every_frame_with_one_of_the_model(  # contract: C6
    spoken: Path, tmp_path: Path, tiny_checkpoint: Path
) -> None:
    out = tmp_path / "out.wav"
    files = ["--input", str(spoken), "--output", str(out)]
    assert main(["console", "--model", str(tiny_checkpoint), *files, "--tail-s", "0.8"]) == 0
    assert soundfile.info(out).samplerate == SAMPLE_RATE
    heard, _ = soundfile.read(out)
    assert len(heard) == (7 + 10) * FRAME_SAMPLES, "half a second, padded, and the tail"
    assert np.abs(heard).max() > 0


class Silent:
    """An outlet that nobody hears."""

    def play(self, pcm: Pcm) -> None:
        pass


def say(sink: ConsoleSink, text: str) -> None:
    """One frame of a response, with these words or none."""
    pcm = np.zeros(FRAME_SAMPLES, np.float32)
    token = 5 if text else 3
    sink.output(OutputFrame(0, 1, 1, pcm, text, token, False, False, "one", 0.0, 0.0, pcm))


@pytest.mark.parametrize(("pause", "lines"), [(9, 1), (10, 2)])
def test_an_answer_after_an_interruption_has_a_line_of_its_own(
    pause: int, lines: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ten frames without words end a line, as ten quiet ones end a response."""
    sink = ConsoleSink(Silent(), meters=False)
    sink.response_started(ResponseInfo("one", 0, False, None))
    for text in (*[""] * 20, " Hello", ",", *[""] * pause, " Nothing", " is"):
        say(sink, text)
    sink.response_done(ResponseEnd("one", 0, "completed", "", "", 24 + pause))
    sink.response_started(ResponseInfo("two", 0, False, None))
    say(sink, " Yes")
    sink.response_done(ResponseEnd("two", 0, "completed", "", "", 1))
    first = ["agent: Hello, Nothing is"] if lines == 1 else ["agent: Hello,", "agent: Nothing is"]
    assert capsys.readouterr().out.splitlines() == [*first, "agent: Yes"]


def constant(dbfs: float) -> Pcm:
    return np.full(FRAME_SAMPLES, 10 ** (dbfs / 20), np.float32)


def test_the_meters_show_both_sides_between_responses(capsys: pytest.CaptureFixture[str]) -> None:
    """Every third frame, on the line that the next words clear."""
    sink = ConsoleSink(Silent(), meters=True)
    for you, agent in ((-60, -60), (-45, -15), (0, -30), (-30, 0), (-15, -45), (-80, -120)):
        sink.heard(constant(you))
        pcm = constant(agent)
        sink.output(OutputFrame(0, 1, 1, pcm, "", 3, False, False, None, 0.0, 0.0, pcm))
    drawn = [f"you {'#' * 20}  agent {'#' * 10}{'.' * 10}", f"you {'.' * 20}  agent {'.' * 20}"]
    assert capsys.readouterr().err == "".join(f"\r{line}" for line in drawn)
    sink.response_started(ResponseInfo("one", 0, False, None))
    for _ in range(6):
        say(sink, "")
    told = capsys.readouterr()
    assert (told.out, told.err) == ("agent:", "\r\033[K"), "no levels among the words"


@pytest.mark.parametrize("terminal", [True, False])
async def test_the_meters_are_drawn_on_terminals(
    terminal: bool, spoken: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stderr = StringIO()
    monkeypatch.setattr(stderr, "isatty", lambda: terminal)
    monkeypatch.setattr("sys.stderr", stderr)
    source = WavSource(spoken, tail_s=1.0, paced=False)
    outlet = WavOutlet(tmp_path / "out.wav")
    await converse(EchoEngine(max_sessions=1), Settings(), UNUSED, source, outlet)
    assert ("you " in stderr.getvalue()) == terminal


class Interrupted(WavSource):
    """A file in whose fourth frame somebody presses Ctrl-C."""

    def __init__(self, path: Path, number: int) -> None:
        super().__init__(path, tail_s=0.0, paced=False)
        self._number = number

    async def frames(self) -> AsyncIterator[Pcm]:
        index = 0
        async for frame in super().frames():
            index += 1
            if index == 4:
                os.kill(os.getpid(), self._number)
                await asyncio.sleep(PATIENCE_SECONDS)
            yield frame


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_call_leaves_a_whole_file(spoken: Path, tmp_path: Path, number: int) -> None:
    engine, out = EchoEngine(max_sessions=1), tmp_path / "out.wav"
    call = converse(engine, Settings(), UNUSED, Interrupted(spoken, number), WavOutlet(out))
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled_by_signals(call))
    assert soundfile.info(out).frames == 3 * FRAME_SAMPLES
    assert engine.stats().used == 0


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [("none.wav", None, "No such file"), ("text.wav", b"hello", "no audio file")],
)
def test_a_wrong_input_is_one_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    content: bytes | None,
    complaint: str,
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    assert main(["console", "--input", str(path), "--output", str(tmp_path / "o.wav")]) == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith(f"error: {path}") and complaint in error and "\n" not in error


def test_a_disk_that_fills_up_ends_the_call_with_one_line(spoken: Path, tmp_path: Path) -> None:
    """What had room is kept as a whole file; the disk's end comes inside the third frame."""
    header, kept = 44, 5 * FRAME_SAMPLES // 2
    engine, out = EchoEngine(max_sessions=1), tmp_path / "out.wav"
    source, outlet = WavSource(spoken, tail_s=1.0, paced=False), WavOutlet(out)
    with (
        no_file_beyond(header + 2 * kept),
        pytest.raises(CommandError, match=r"out\.wav: cannot be written"),
    ):
        asyncio.run(converse(engine, Settings(), UNUSED, source, outlet))
    assert engine.stats().used == 0
    assert soundfile.info(out).frames == kept


class FakeStream:
    """Stands where PortAudio's streams stand; the test is the hardware."""

    def __init__(self, callback: Callable[..., None], **options: Any) -> None:
        assert options["samplerate"] == SAMPLE_RATE and options["blocksize"] == FRAME_SAMPLES
        self.callback = callback
        self.open = False

    def start(self) -> None:
        self.open = True

    def close(self) -> None:
        self.open = False


async def test_the_sound_card_passes_frames_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = SimpleNamespace(
        InputStream=FakeStream, OutputStream=FakeStream, PortAudioError=RuntimeError
    )
    monkeypatch.setattr(devices, "_sounddevice", lambda: fake)
    with SoundCard(microphone=True, speaker=True) as card:
        microphone, speaker = card._streams
        block = np.full((FRAME_SAMPLES, 1), 0.25, np.float32)
        await asyncio.to_thread(microphone.callback, block, FRAME_SAMPLES, None, None)
        block[:] = 0.0
        heard = await anext(card.frames())
        assert heard.shape == (FRAME_SAMPLES,) and (heard == 0.25).all()
        for level in range(6):
            card.play(np.full(FRAME_SAMPLES, level, np.float32))
        played = []
        for _ in range(5):
            speaker.callback(block, FRAME_SAMPLES, None, None)
            played.append(block[0, 0])
        assert played == [2, 3, 4, 5, 0], "the oldest are dropped, an underrun is silence"
    assert not microphone.open and not speaker.open


@pytest.mark.parametrize("given", ["--input", "--output"])
def test_a_missing_sound_device_is_said_before_the_model_is_loaded(
    given: str,
    spoken: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def absent(**_: Any) -> FakeStream:
        raise RuntimeError("Error querying device -1")

    fake = SimpleNamespace(InputStream=absent, OutputStream=absent, PortAudioError=RuntimeError)
    monkeypatch.setattr(devices, "_sounddevice", lambda: fake)
    monkeypatch.setattr(loading, "make_engine", lambda _: pytest.fail("the model was loaded"))
    path = spoken if given == "--input" else tmp_path / "out.wav"
    assert main(["console", "--model", "demo", given, str(path)]) == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith("error: no sound device that works") and "\n" not in error
