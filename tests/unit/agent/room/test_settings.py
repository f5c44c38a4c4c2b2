"""Settings: flag over variable over default, one readable line for what cannot be used."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import pytest

from agent.__main__ import BAD_INPUT, COMMANDS, main
from agent.settings import Settings, SettingsError, add_arguments, load, markdown_table

pytestmark = pytest.mark.unit
ROOT = Path(__file__).resolve().parents[4]


def settings(*words: str, environ: Mapping[str, str] | None = None) -> Settings:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return load(parser.parse_args(words), environ or {})


def test_a_flag_wins_over_its_variable_and_that_over_the_default() -> None:
    environ = {"PERSONAPLEX_PORT": "9000", "LIVEKIT_URL": "ws://one"}
    assert settings().port == 8000
    assert settings(environ=environ).port == 9000
    chosen = settings("--port", "9100", "--url", "ws://two", environ=environ)
    assert (chosen.port, chosen.livekit_url) == (9100, "ws://two")


def test_switches() -> None:
    environ = {"PERSONAPLEX_ALLOW_SAMPLING": "yes"}
    assert settings(environ=environ).allow_sampling
    assert not settings("--no-allow-sampling", environ=environ).allow_sampling


@pytest.mark.parametrize(
    ("words", "environ", "message"),
    [
        (["--port", "x"], {}, "--port='x' is not a whole number; the default is 8000"),
        (["--port", "0"], {}, "--port (PERSONAPLEX_PORT) is 0"),
        (["--livekit-port", "0"], {}, "--livekit-port (PERSONAPLEX_LIVEKIT_PORT) is 0"),
        (["--persona", "\udcff"], {}, "--persona (PERSONAPLEX_PERSONA) is no valid text"),
        ([], {"PERSONAPLEX_PORT": "70000"}, "--port (PERSONAPLEX_PORT) is 70000"),
        (["--max-sessions", "0"], {}, "it must be at least 1"),
        (["--resume-grace", "nan"], {}, "is not a number"),
        (["--device", "tpu"], {}, "choose one of auto, cpu, cuda"),
        ([], {"PERSONAPLEX_ALLOW_SAMPLING": "perhaps"}, "neither true nor false"),
    ],
)
def test_what_cannot_be_used_is_named(
    words: list[str], environ: dict[str, str], message: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        settings(*words, environ=environ)
    assert message in str(refused.value)


def test_an_open_api_stays_on_loopback() -> None:
    assert settings().bind_host == "127.0.0.1"
    assert settings("--api-keys", "k").bind_host == "0.0.0.0"
    assert settings("--host", "192.0.2.1").bind_host == "192.0.2.1"


def test_secrets_are_not_printed() -> None:
    shown = repr(settings("--api-secret", "hush", "--api-keys", "quiet"))
    assert "hush" not in shown and "quiet" not in shown


def test_the_readme_shows_the_table_of_these_settings() -> None:
    assert markdown_table() in (ROOT / "README.md").read_text()


def test_the_command_line_names_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == BAD_INPUT
    assert main(["--help"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in COMMANDS)
    assert main(["nonsense"]) == BAD_INPUT
    assert "there is no command 'nonsense'" in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_its_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([name, "--help"])
    assert left.value.code == 0
    assert f"agent {name}" in capsys.readouterr().out


def test_a_commands_own_default_gives_way_to_variable_and_flag() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser, "calls")
    plain, flag = parser.parse_args([]), parser.parse_args(["--drain-time", "5"])
    variable = {"PERSONAPLEX_DRAIN_TIME": "7"}
    asked = [load(plain, {}), load(plain, variable), load(flag, variable)]
    assert [settings.drain_time for settings in asked] == [600, 7, 5]
    own = [load(*given, drain_time=0.0) for given in ((plain, {}), (plain, variable), (flag, {}))]
    assert [settings.drain_time for settings in own] == [0, 7, 5]
