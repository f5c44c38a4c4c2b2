"""Flags and defaults are the upstream driver's, so that reports compare line by line."""

from __future__ import annotations

import argparse

import pytest

from agent.driver.options import DriverOptions, add_arguments
from agent.driver.probe import session_url

pytestmark = pytest.mark.unit


def parse(*flags: str) -> DriverOptions:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    required = ("--input-wav", "in.wav", "--output-dir", "out")
    return DriverOptions.parse(parser.parse_args([*required, *flags]))


# contract: K0
@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("url", "ws://127.0.0.1:8099/v1/realtime?duplex=1"),
        ("voice", None),
        ("expected_input_sha256", None),
        ("tail_s", 2.0),
        ("drain_s", 2.0),
        ("timeout_s", 180.0),
        ("cleanup_timeout_s", 5.0),
        ("max_frame_deficit", 4),
        ("voiced_frame_rms_threshold", 1e-3),
        ("min_voiced_frames", 5),
        ("minimum_audio_chunks", 2),
        ("replacement_frames", 0),
        ("sessions", None),
        ("load_frames", 1000),
        ("max_client_rtf", None),
        ("max_stream_rtf", None),
        ("max_lag_drift_ms", None),
        ("server_revision", None),
        ("server_hardware", None),
        ("transport", "websocket"),
    ],
)
def test_default_of_each_flag(name: str, default: object) -> None:
    assert getattr(parse(), name) == default


# contract: K0
def test_every_flag_says_what_it_is_for_and_its_default() -> None:
    parser = argparse.ArgumentParser(add_help=False)
    add_arguments(parser)
    for action in parser._actions:
        assert action.help, action.dest
        assert action.required or "(default: " in action.help, action.dest


# contract: K0
@pytest.mark.parametrize(
    "flags",
    [
        ("--drain-s", "nan"),
        ("--drain-s", "inf"),
        ("--tail-s", "-1"),
        ("--max-client-rtf", "nan"),
        ("--max-frame-deficit", "-1"),
        ("--sessions", "0"),
        ("--sessions", "65"),
        ("--load-frames", "0"),
        ("--load-frames", "10001"),
        ("--url", "http://127.0.0.1/"),
    ],
)
def test_unusable_values_are_usage_errors(flags: tuple[str, str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        parse(*flags)
    assert stopped.value.code == 2


def test_help_says_what_a_run_does_not_prove() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    text = " ".join(parser.format_help().split())
    for limit in ("cold starts", "longer drain", "more sessions", "quality of what the model says"):
        assert limit in text


# contract: K1
def test_the_driver_adds_its_query_itself() -> None:
    url = session_url("ws://127.0.0.1:1/v1/realtime?keep=1&duplex=0", "nvidia/personaplex-7b-v1")
    assert url == (
        "ws://127.0.0.1:1/v1/realtime?keep=1&duplex=1&model=nvidia%2Fpersonaplex-7b-v1&autostart=0"
    )
