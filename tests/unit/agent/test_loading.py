"""What a checkpoint says of itself reaches the log and the API; settings reach the engine."""

from __future__ import annotations

import logging
from argparse import ArgumentParser
from pathlib import Path

import pytest

from agent import loading
from agent import settings as all_settings
from agent.command import CommandError
from agent.http import HttpOptions
from agent.loading import RANDOM_NOTICE, about_model, make_engine
from agent.settings import Settings
from tests.fakes.engine import FakeEngine
from tests.fakes.server import serving

pytestmark = pytest.mark.unit


def settings_of(*flags: str) -> Settings:
    parser = ArgumentParser()
    all_settings.add_arguments(parser, "model", "calls", "log")
    return all_settings.load(parser.parse_args(flags))


def test_random_weights_are_named_in_the_log(
    tiny_checkpoint: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = settings_of("--model", str(tiny_checkpoint))
    assert about_model(settings).notice == RANDOM_NOTICE
    with caplog.at_level(logging.INFO):
        make_engine(settings).shutdown()
    assert RANDOM_NOTICE in caplog.text
    assert "licence: none named" in caplog.text


def test_int8_weights_are_chosen_by_a_setting(tiny_checkpoint: Path) -> None:
    engine = make_engine(settings_of("--model", str(tiny_checkpoint), "--quantize", "int8"))
    try:
        assert "int8" in engine.stats().mode
    finally:
        engine.shutdown()


async def test_the_models_of_the_api_name_their_licence() -> None:
    options = HttpOptions(model_licence="CC-BY-4.0")
    async with serving(FakeEngine(), options) as server:
        async with server.http.get(f"{server.url}/v1/models") as response:
            assert (await response.json())["data"][0]["licence"] == "CC-BY-4.0"


def test_sessions_that_do_not_fit_are_refused_before_loading(
    tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(loading, "load_engine")
    settings = settings_of("--model", str(tiny_checkpoint), "--max-sessions", "100000000")
    with pytest.raises(CommandError, match=r"--max-sessions to [1-9]\d* at most"):
        make_engine(settings)
