"""The driver's flags, their defaults and their checks; nothing else reads `argparse` results."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from agent.command import amount

FRAME_SAMPLES = 1_920
SAMPLE_RATE = 24_000
FRAME_SECONDS = FRAME_SAMPLES / SAMPLE_RATE

_TEACHER = (
    "You are a wise and friendly teacher. Answer questions or provide advice in a clear and "
    "engaging way."
)
_SECONDARY = "You enjoy having a good conversation."
_REPLACEMENT = "You work at the front desk of a small hotel and help guests politely."

LIMITS = """\
What a run does not prove: cold starts (the first call may pay for caches and kernels: warm the
server up, or label the run), completion under a longer drain (audio that comes late is not
counted; a longer --drain-s shows that a backlog ends, not real-time capacity), more sessions than
were asked for (begin with one and two; higher numbers are experiments), speaker playback (the
continuity figures are packet arrivals at this client), and the quality of what the model says."""


@dataclass(frozen=True)
class DriverOptions:
    """Everything one run is configured by."""

    url: str
    model: str | None
    api_key: str | None
    transport: str
    input_wav: Path
    expected_input_sha256: str | None
    output_dir: Path
    voice: str | None
    persona: str
    secondary_persona: str
    replacement_persona: str
    tail_s: float
    drain_s: float
    timeout_s: float
    cleanup_timeout_s: float
    max_frame_deficit: int
    voiced_frame_rms_threshold: float
    min_voiced_frames: int
    minimum_audio_chunks: int
    replacement_frames: int
    sessions: int | None
    load_frames: int
    max_client_rtf: float | None
    max_stream_rtf: float | None
    max_lag_drift_ms: float | None
    server_revision: str | None
    server_hardware: str | None
    plot: bool

    @classmethod
    def parse(cls, args: argparse.Namespace) -> DriverOptions:
        return cls(**{name: getattr(args, name) for name in cls.__dataclass_fields__})


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return value


def _within(low: int, high: int) -> object:
    def parse(text: str) -> int:
        value = int(text)
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{text} is not between {low} and {high}")
        return value

    return parse


def _websocket_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("ws", "wss") or not parts.hostname:
        raise argparse.ArgumentTypeError(f"{parts.scheme or text!r} is no ws:// or wss:// address")
    return text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare every flag on `parser`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = LIMITS
    _add_target(parser)
    _add_input(parser)
    _add_acceptance(parser)
    _add_load(parser)


def _add_target(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("server")
    group.add_argument(
        "--url",
        type=_websocket_url,
        default="ws://127.0.0.1:8099/v1/realtime?duplex=1",
        help="Realtime address, `start` and `demo` listen on 8000; duplex=1, model and autostart=0"
        " are added (default: %(default)s)",
    )
    group.add_argument("--model", help="model name (default: the server's only model)")
    group.add_argument("--api-key", help="Bearer token, never written anywhere (default: none)")
    group.add_argument(
        "--transport",
        choices=("websocket", "livekit"),
        default="websocket",
        help="load over the websocket, or through LiveKit rooms with tokens of the same server"
        " (default: %(default)s)",
    )
    group.add_argument(
        "--timeout-s",
        type=amount,
        default=180.0,
        help="most seconds of any one wait (default: %(default)s)",
    )
    group.add_argument(
        "--cleanup-timeout-s",
        type=amount,
        default=5.0,
        help="most seconds of close and its acknowledgement, and again on the closing handshake"
        " (default: %(default)s)",
    )
    for name in ("--server-revision", "--server-hardware"):
        group.add_argument(name, help="stored as given, marked operator-supplied (default: none)")


def _add_input(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("input and output")
    group.add_argument("--input-wav", type=Path, required=True, help="speech to play (required)")
    group.add_argument("--expected-input-sha256", help="refuse another file (default: any)")
    group.add_argument(
        "--output-dir", type=Path, required=True, help="a new folder for each run (required)"
    )
    group.add_argument("--voice", help="a voice of the server (default: NATF2.pt, else its own)")
    for name, default, whose in (
        ("--persona", _TEACHER, "of the first session, in load of all"),
        ("--secondary-persona", _SECONDARY, "of the second session"),
        ("--replacement-persona", _REPLACEMENT, "of the replacement"),
    ):
        group.add_argument(name, default=default, help=f"{whose} (default: %(default)s)")
    for name, what in (
        ("--tail-s", "seconds of silence played after the input"),
        ("--drain-s", "seconds waited after the last frame; later audio does not count"),
    ):
        group.add_argument(name, type=amount, default=2.0, help=f"{what} (default: %(default)s)")
    group.add_argument(
        "--replacement-frames",
        type=_count,
        default=0,
        help="frames of the second round of the lifecycle (default: 0, the whole input)",
    )


def _add_acceptance(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("acceptance")
    group.add_argument(
        "--voiced-frame-rms-threshold",
        type=amount,
        default=1e-3,
        help="least RMS of a voiced frame (default: %(default)s)",
    )
    for name, default, what in (
        ("--max-frame-deficit", 4, "most frames that the output may lack"),
        ("--min-voiced-frames", 5, "fewest voiced frames that a session must say"),
        ("--minimum-audio-chunks", 2, "fewest audio packets of a session"),
    ):
        group.add_argument(
            name, type=_count, default=default, help=f"{what} (default: %(default)s)"
        )
    for name, what in (
        ("--max-client-rtf", "client RTF"),
        ("--max-stream-rtf", "stream RTF"),
        ("--max-lag-drift-ms", "lag drift"),
    ):
        group.add_argument(name, type=amount, help=f"make the {what} a gate (default: none)")


def _add_load(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("load")
    group.add_argument(
        "--sessions",
        type=_within(1, 64),  # type: ignore[arg-type]
        help="load mode with so many sessions (default: the lifecycle)",
    )
    group.add_argument(
        "--load-frames",
        type=_within(1, 10_000),  # type: ignore[arg-type]
        default=1_000,
        help="most frames of 80 ms sent; the input is never looped (default: %(default)s)",
    )
    group.add_argument("--plot", action="store_true", help="draw load-result.png (default: off)")
