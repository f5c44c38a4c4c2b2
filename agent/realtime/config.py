"""A client's session object: merged over updates, validated, resolved to formats, voice, sampler.

Both the flat names of the older vocabulary and the nested ones of the present are read. It knows
nothing of sockets; a `SessionError` says which field is wrong.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agent.errors import SessionError
from agent.policy import DUPLEX, DUPLEX_CONTINUATION, STOCK, CancelMode, Continuation, Policy
from agent.realtime.audio import AudioFormat, encoding_of, input_rate, output_rate
from agent.realtime.fields import Fields
from agent.text import is_text
from model import SAMPLE_RATE, Sampling, SessionSpec

PRIVATE_KEYS = frozenset(
    {
        "personaplex_prefill_slots",
        "personaplex_model_path",
        "personaplex_voice_prompt",
        "personaplex_persona",
    }
)
_SAMPLING_KEYS = ("seed", "temperature_text", "temperature_audio", "top_k_text", "top_k_audio")
MAX_INSTRUCTIONS = 100_000
"""Characters; far beyond any context, and cheap to refuse before tokenising."""


@dataclass(frozen=True, slots=True)
class Mood:
    """What the websocket's two moods decide about configuration and opening."""

    policy: Policy
    strict_voice: bool
    """An unknown voice is refused; otherwise it is the default voice."""
    vendor_metadata: bool
    """`metadata.duplex_event` stands in responses; plain clients expect strings there."""

    @property
    def name(self) -> str:
        return self.policy.mood


DUPLEX_MOOD = Mood(DUPLEX, strict_voice=True, vendor_metadata=True)
STOCK_MOOD = Mood(STOCK, strict_voice=False, vendor_metadata=False)


@dataclass(frozen=True, slots=True)
class Limits:
    """What the operator decides about configuration."""

    voices: tuple[str, ...]
    default: SessionSpec
    allow_sampling: bool = False


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """The resolved configuration; `fields` is what the client sent, for the echo."""

    spec: SessionSpec
    input: AudioFormat = AudioFormat("pcm16", SAMPLE_RATE)
    output: AudioFormat = AudioFormat("pcm16", SAMPLE_RATE)
    cancel_mode: CancelMode | None = None
    continuation: Continuation | None = None
    fields: Fields = field(default_factory=Fields)
    names_prompt: bool = False
    """Voice or instructions were named, by whatever message."""

    def updated(self, sent: Mapping[str, Any], mood: Mood, limits: Limits) -> SessionConfig:
        """This configuration with what a `session.update` says; raises before anything changed."""
        extra = _part(sent, "extra_body")
        _refuse_private(extra)
        spec = replace(
            self.spec,
            voice=_voice(sent, self.spec.voice, mood, limits),
            persona=_persona(sent, self.spec.persona, limits),
            sampling=_sampling(extra, self.spec.sampling, limits),
        )
        return SessionConfig(
            spec=spec,
            input=_input_format(sent, self.input),
            output=_output_format(sent, self.output),
            cancel_mode=_cancel_mode(extra) or self.cancel_mode,
            continuation=_continuation(extra, mood) or self.continuation,
            fields=self.fields.updated(sent),
            names_prompt=self.names_prompt
            or _named_voice(sent)[0] is not None
            or sent.get("instructions") is not None,
        )


def _part(sent: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    """The object at this dotted path of the session, which itself has the empty one."""
    part, where = sent, "session"
    for key in path.split(".") if path else ():
        where = f"{where}.{key}"
        value = part.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise SessionError("invalid_session_config", f"{where} must be an object", param=where)
        part = value
    return part


def _first_of(sent: Mapping[str, Any], *paths: str) -> tuple[Any, str]:
    """The first of these fields that the client sent, and where it stands; none where none is."""
    for path in paths:
        parent, _, key = path.rpartition(".")
        value = _part(sent, parent).get(key)
        if value is not None:
            return value, f"session.{path}"
    return None, f"session.{paths[0]}"


def _refuse_private(extra: Mapping[str, Any]) -> None:
    for key in sorted(PRIVATE_KEYS & extra.keys()):
        raise SessionError(
            "invalid_duplex_runtime_config",
            f"{key} belongs to the server",
            param=f"session.extra_body.{key}",
        )


def _named_voice(sent: Mapping[str, Any]) -> tuple[object, str]:
    """The voice that the client names, as a string or as `{id}`, and where; none if it does not."""
    value, where = _first_of(sent, "audio.output.voice", "voice")
    return (value.get("id") if isinstance(value, dict) else value), where


def _voice(sent: Mapping[str, Any], current: str, mood: Mood, limits: Limits) -> str:
    value, where = _named_voice(sent)
    if value is None:
        return current
    if value == "":
        return limits.default.voice
    if isinstance(value, str) and value in limits.voices:
        return value
    if mood.strict_voice:
        raise SessionError("invalid_voice", "voice must be one of GET /v1/voices", param=where)
    return f"{value}.pt" if f"{value}.pt" in limits.voices else limits.default.voice


def _persona(sent: Mapping[str, Any], current: str, limits: Limits) -> str:
    if "instructions" not in sent:
        return current
    value = sent["instructions"]
    if value is None or value == "":
        return limits.default.persona
    if not isinstance(value, str):
        raise SessionError(
            "invalid_session_config", "instructions must be a string", param="session.instructions"
        )
    if len(value) > MAX_INSTRUCTIONS:
        raise SessionError(
            "prompt_too_long",
            f"instructions of {len(value)} characters",
            param="session.instructions",
        )
    if not is_text(value):
        raise SessionError(
            "invalid_session_config", "instructions are no valid text", param="session.instructions"
        )
    return value


def _sampling(
    extra: Mapping[str, Any], current: Sampling | None, limits: Limits
) -> Sampling | None:
    given = {key: extra[key] for key in _SAMPLING_KEYS if extra.get(key) is not None}
    if not given:
        return current
    if not limits.allow_sampling:
        raise SessionError(
            "sampling_not_allowed", "this server samples greedily", param="session.extra_body"
        )
    for key, value in given.items():
        _check_sampling(key, value)
    base = current or Sampling(seed=secrets.randbits(31))
    return replace(base, **given)


def _check_sampling(key: str, value: object) -> None:
    """Temperatures are 0 to 5; seed and top-k are whole numbers that fit 63 bits."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if key.startswith("temperature"):
        good = number and 0.0 <= float(str(value)) <= 5.0
    else:
        low = 0 if key == "seed" else 1
        good = isinstance(value, int) and number and low <= value < 2**63
    if not good:
        raise SessionError(
            "invalid_session_config", f"{key} is out of range", param=f"session.extra_body.{key}"
        )


def _cancel_mode(extra: Mapping[str, Any]) -> CancelMode | None:
    value = extra.get("cancel_mode")
    if value is None:
        return None
    if value == "hard":
        return "hard"
    if value == "soft":
        return "soft"
    raise SessionError(
        "invalid_session_config",
        "cancel_mode is hard or soft",
        param="session.extra_body.cancel_mode",
    )


def _continuation(extra: Mapping[str, Any], mood: Mood) -> Continuation | None:
    wanted = extra.get("silence_continuation", False)
    if not isinstance(wanted, bool):
        raise SessionError(
            "invalid_session_config",
            "silence_continuation is true or false",
            param="session.extra_body.silence_continuation",
        )
    return DUPLEX_CONTINUATION if wanted and mood.policy.continuation is None else None


def _input_format(sent: Mapping[str, Any], current: AudioFormat) -> AudioFormat:
    named, where = _first_of(sent, "audio.input.format", "input_audio_format")
    rate = _first_of(sent, "sample_rate_hz", "sample_rate", "audio.input.sample_rate_hz")
    return _format(named, where, rate, current, input_rate)


def _output_format(sent: Mapping[str, Any], current: AudioFormat) -> AudioFormat:
    names = ("audio.output.format", "output_audio_format", "response_format")
    named, where = _first_of(sent, *names)
    rate = _first_of(sent, "audio.output.sample_rate_hz")
    wanted = _format(named, where, rate, current, output_rate)
    if wanted.encoding == "pcm_f32le":
        raise SessionError("unsupported_audio_format", "output is pcm16 or G.711", param=where)
    return wanted


def _format(
    named: Any,
    where: str,
    rate: tuple[Any, str],
    current: AudioFormat,
    checked: Callable[[object, str], int],
) -> AudioFormat:
    """The format named at `where`; its rate stands beside it, inside it, or goes without saying."""
    encoding = current.encoding if named is None else encoding_of(named, where)
    if rate[0] is None and isinstance(named, dict):
        rate = named.get("rate"), f"{where}.rate"
    if rate[0] is not None:
        return AudioFormat(encoding, checked(*rate))
    return AudioFormat(encoding, current.rate if named is None else _usual_rate(encoding))


def _usual_rate(encoding: str) -> int:
    """No rate given means 24 kHz; G.711 is telephony, always 8 kHz where nothing is said."""
    return 8_000 if encoding.startswith("g711") else SAMPLE_RATE
