"""Every setting of the worker, once: flag, environment variable, default, meaning.

The environment is read here and nowhere else. A flag wins over its variable, the variable over
the default. `python -m agent.settings` prints the table that the README embeds. This module
knows nothing of what a setting does.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast
from urllib.parse import urlsplit

from agent.command import CommandError
from agent.text import is_text


class SettingsError(CommandError):
    """A setting that cannot be used; the message says what, where and what to do."""


TRUE_WORDS = frozenset({"1", "true", "yes", "on"})
FALSE_WORDS = frozenset({"0", "false", "no", "off", ""})


def setting(
    default: str | int | float | bool,
    meaning: str,
    *,
    group: str,
    flag: str | None = None,
    env: str | None = None,
    secret: bool = False,
) -> Any:
    """A dataclass field that carries its own flag, variable and meaning."""
    return field(
        default=default,
        metadata={"meaning": meaning, "group": group, "flag": flag, "env": env, "secret": secret},
        repr=not secret,
    )


@dataclass(frozen=True, slots=True)
class Settings:
    """What one process runs with."""

    GROUPS: ClassVar[tuple[str, ...]] = ("livekit", "http", "model", "calls", "demo", "log")

    livekit_url: str = setting(
        "",
        "address of the LiveKit server, `ws://` or `wss://`",
        group="livekit",
        flag="--url",
        env="LIVEKIT_URL",
    )
    livekit_api_key: str = setting(
        "",
        "API key of the LiveKit server",
        group="livekit",
        flag="--api-key",
        env="LIVEKIT_API_KEY",
    )
    livekit_api_secret: str = setting(
        "",
        "its secret; prefer the variable, a flag shows in the process list",
        group="livekit",
        flag="--api-secret",
        env="LIVEKIT_API_SECRET",
        secret=True,
    )
    public_livekit_url: str = setting(
        "",
        "address of the LiveKit server as browsers see it, where it differs",
        group="livekit",
        flag="--public-url",
        env="PERSONAPLEX_PUBLIC_LIVEKIT_URL",
    )
    agent_name: str = setting(
        "personaplex",
        "name under which calls are dispatched to this worker",
        group="livekit",
        env="LIVEKIT_AGENT_NAME",
    )
    host: str = setting(
        "",
        "address that HTTP listens on; empty: `127.0.0.1` without `--api-keys`, else `0.0.0.0`",
        group="http",
    )
    port: int = setting(8000, "port of the one HTTP app (page, API, health)", group="http")
    api_keys: str = setting(
        "",
        "comma-separated bearer keys that the API and the websockets ask for; empty: open",
        group="http",
        secret=True,
    )
    cors_origins: str = setting(
        "", "comma-separated origins of other pages that may use the API", group="http"
    )
    model: str = setting(
        "demo",
        "`demo`, a folder, or a Hugging Face name with an optional `@revision`",
        group="model",
    )
    max_sessions: int = setting(
        2, "calls at once; memory for all of them is taken at start", group="model"
    )
    device: str = setting("auto", "`auto`, `cpu` or `cuda`", group="model")
    dtype: str = setting(
        "auto",
        "`auto`, `float32` or `bfloat16`; `auto` is the checkpoint's own, the demo's `float32`, "
        "which gives the reference's tokens; `bfloat16` is faster only on a CPU that multiplies it "
        "(AMX, AVX-512 bf16)",
        group="model",
    )
    quantize: str = setting(
        "none",
        "`none`, or `int8` weights in the temporal transformer: half the size, another model",
        group="model",
    )
    voice: str = setting("", "default voice; empty: the checkpoint's own", group="model")
    persona: str = setting("", "default persona; empty: the checkpoint's own", group="model")
    prefix_cache_mib: int = setting(
        -1, "memory for prepared (voice, persona) prefixes; -1: 256, on a GPU 2048", group="model"
    )
    warmup_frames: int = setting(10, "silent frames stepped before `/ready`", group="model")
    allow_sampling: bool = setting(
        False, "let callers choose a seed and temperatures; else greedy only", group="calls"
    )
    heard: str = setting(
        "all",
        "who is heard in a room: `all` people, the `first`, or one identity",
        group="calls",
    )
    resume_grace: float = setting(
        10.0, "seconds that a call waits for somebody whose connection broke", group="calls"
    )
    max_call_duration: float = setting(
        3600.0, "seconds after which a room is closed", group="calls"
    )
    drain_time: float = setting(
        600.0,
        "seconds that running calls may go on after SIGTERM; `demo` ends them at once where "
        "nothing is set",
        group="calls",
    )
    turn_open_dbfs: float = setting(
        -50.0, "level of a frame that counts as the agent's speech", group="calls"
    )
    turn_open_frames: int = setting(
        2, "frames above that level that begin an utterance", group="calls"
    )
    turn_done_frames: int = setting(10, "quiet frames that end an utterance", group="calls")
    recording: str = setting(
        "", "folder for recordings of rooms (FLAC and JSON lines); empty: none", group="calls"
    )
    livekit_port: int = setting(7880, "port of the LiveKit server that `demo` starts", group="demo")
    livekit_server_bin: str = setting(
        "",
        "the `livekit-server` that `demo` starts; empty: from PATH, then `.cache/bin`",
        group="demo",
        env="LIVEKIT_SERVER_BIN",
    )
    log_level: str = setting("info", "`debug`, `info`, `warning` or `error`", group="log")

    @property
    def bind_host(self) -> str:
        """The HTTP address after the rule that an open API stays on loopback."""
        return self.host or ("0.0.0.0" if self.api_keys else "127.0.0.1")

    @property
    def browser_livekit_url(self) -> str:
        return self.public_livekit_url or self.livekit_url


def options(*groups: str) -> Iterator[dataclasses.Field[Any]]:
    """The settings of these groups, in declaration order; all without arguments."""
    for option in dataclasses.fields(Settings):
        if not groups or option.metadata["group"] in groups:
            yield option


def flag_of(option: dataclasses.Field[Any]) -> str:
    return cast(str, option.metadata["flag"] or "--" + option.name.replace("_", "-"))


def variable_of(option: dataclasses.Field[Any]) -> str:
    return cast(str, option.metadata["env"] or "PERSONAPLEX_" + option.name.upper())


def add_arguments(parser: argparse.ArgumentParser, *groups: str) -> None:
    """One flag for each setting of these groups."""
    for option in options(*groups):
        help_text = f"{option.metadata['meaning']} [{variable_of(option)}]".replace("%", "%%")
        if isinstance(option.default, bool):
            action: Any = argparse.BooleanOptionalAction
            parser.add_argument(
                flag_of(option), dest=option.name, action=action, default=None, help=help_text
            )
        else:
            parser.add_argument(
                flag_of(option), dest=option.name, default=None, metavar="VALUE", help=help_text
            )


def load(
    args: argparse.Namespace, environ: Mapping[str, str] = os.environ, **own_defaults: Any
) -> Settings:
    """Flags over variables over a command's own defaults over those of all.

    Raises `SettingsError` for what cannot be used.
    """
    values = own_defaults
    for option in options():
        given = getattr(args, option.name, None)
        source, text = flag_of(option), given
        if given is None:
            source, text = variable_of(option), environ.get(variable_of(option))
        if text is not None:
            values[option.name] = convert(option, source, text)
    settings = Settings(**values)
    check(settings)
    return settings


def convert(option: dataclasses.Field[Any], source: str, text: str | bool) -> Any:
    """The text as the type of the setting's default."""
    if isinstance(text, bool):
        return text
    kind = cast(type[str] | type[int] | type[float], type(option.default))
    if kind is bool:
        if text.lower() in TRUE_WORDS | FALSE_WORDS:
            return text.lower() in TRUE_WORDS
        raise SettingsError(f"{source}={text!r} is neither true nor false; use 1 or 0")
    try:
        value = kind(text)
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(text)
        return value
    except ValueError:
        wanted = "a whole number" if kind is int else "a number"
        raise SettingsError(
            f"{source}={text!r} is not {wanted}; the default is {option.default}"
        ) from None


MINIMUM = {
    "max_sessions": 1,
    "warmup_frames": 0,
    "resume_grace": 0,
    "max_call_duration": 1,
    "drain_time": 0,
    "turn_open_frames": 1,
    "turn_done_frames": 1,
    "prefix_cache_mib": -1,
}
TEXTS = frozenset({"agent_name", "api_keys", "voice", "persona", "heard"})
"""Paths are not among these: file systems take any bytes."""
CHOICES = {
    "device": ("auto", "cpu", "cuda"),
    "dtype": ("auto", "float32", "bfloat16"),
    "quantize": ("none", "int8"),
    "log_level": ("debug", "info", "warning", "error"),
}


def check(settings: Settings) -> None:
    """Refuse values outside their range, with the flag's name."""
    for option in options():
        value = getattr(settings, option.name)
        name = option.name
        where = f"{flag_of(option)} ({variable_of(option)})"
        if name in TEXTS and not is_text(value):
            raise SettingsError(f"{where} is no valid text; give it in UTF-8")
        if name in MINIMUM and value < MINIMUM[name]:
            raise SettingsError(f"{where} is {value}; it must be at least {MINIMUM[name]}")
        if name in CHOICES and value not in CHOICES[name]:
            raise SettingsError(f"{where} is {value!r}; choose one of {', '.join(CHOICES[name])}")
        if name.endswith("port") and not 1 <= value <= 65535:
            raise SettingsError(f"{where} is {value}; a port is a number from 1 to 65535")


def check_livekit_url(url: str) -> None:
    """Refuse what is no address of a LiveKit server, before anybody connects."""
    try:
        parts = urlsplit(url)
        good = bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not url.startswith(("ws://", "wss://", "http://", "https://")):
        raise SettingsError(f"LIVEKIT_URL is {url!r}; it must begin with ws:// or wss://")
    if not good:
        raise SettingsError(f"LIVEKIT_URL is {url!r}; it must be like wss://livekit.example.com")


def markdown_table() -> str:
    """The table that the README embeds between its markers."""
    lines = ["| flag | variable | default | meaning |", "|---|---|---|---|"]
    for option in options():
        default = str(option.default).lower() if option.default != "" else ""
        shown = f"`{default}`" if default else ""
        meaning = option.metadata["meaning"]
        lines.append(f"| `{flag_of(option)}` | `{variable_of(option)}` | {shown} | {meaning} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(markdown_table())
