"""What hostile clients send, by kind: messages of a Realtime connection and Ogg streams.

Each kind is a function of a seeded `Random`. Nothing here knows a server.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from tests.fakes.ogg import opus_stream

Message = str | bytes
HUGE = 15 * 2**20
DEEPEST = 90_000
"""Levels; more would be refused for the number of values, before anything is nested."""
TYPES = [
    "session.update",
    "session.create",
    "session.resume",
    "session.event_ack",
    "session.heartbeat",
    "input_audio_buffer.append",
    "input_audio_buffer.commit",
    "input_audio_buffer.clear",
    "input.cancel",
    "output_audio_buffer.clear",
    "response.create",
    "response.cancel",
    "conversation.item.create",
    "conversation.item.retrieve",
    "conversation.item.delete",
    "conversation.item.truncate",
    "playback.ack",
    "input.text.append",
    "barge_in",
    "turn.signal",
]
FIELDS = [
    "session",
    "audio",
    "delta",
    "format",
    "sample_rate_hz",
    "final",
    "response",
    "response_id",
    "item",
    "item_id",
    "played_ms",
    "audio_end_ms",
    "server_event_seq",
    "event",
    "event_id",
    "voice",
    "instructions",
    "extra_body",
    "turn_detection",
    "type",
    "id",
    "content",
]
ASKED = "as asked"
"""How the reason begins for which a hostile client closes its session."""
BAD_NUMBERS = ["NaN", "Infinity", "-Infinity", "1e999", "-1e400", "9" * 400, "9" * 5_000]
BAD_SAMPLES = [np.nan, np.inf, -np.inf, 3.4e38, -3.4e38, 1e-45]


def value(rng: Random, depth: int = 0) -> Any:
    """Anything that JSON can hold, mostly wrong."""
    scalars: list[Any] = [
        None,
        True,
        -1,
        0,
        24000,
        10**30,
        1e308,
        "",
        "pcm16",
        "\ud800",
        "x" * rng.randrange(2000),
        _base64(rng.randbytes(rng.randrange(4000))),
        "../../../etc/passwd.pt",
    ]
    if depth > 3 or rng.random() < 0.6:
        return rng.choice(scalars)
    if rng.random() < 0.5:
        return [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice(FIELDS): value(rng, depth + 1) for _ in range(rng.randrange(4))}


def wrong_fields(rng: Random) -> Message:
    """A known event whose fields are anything."""
    return json.dumps(_fields(rng) | {"type": rng.choice(TYPES)})


def wrong_type(rng: Random) -> Message:
    return json.dumps(_fields(rng) | {"type": value(rng)})


def unknown_type(rng: Random) -> Message:
    return json.dumps(_fields(rng) | {"type": f"no.such.event.{rng.randrange(1000)}"})


def broken_json(rng: Random) -> Message:
    text = str(wrong_fields(rng))
    cut = rng.randrange(len(text))
    return text[:cut] + rng.choice(["", "\x00", "}", '"', "\u2028"]) + text[cut + 1 :]


def unclosed_nesting(rng: Random) -> Message:
    return rng.choice(["[", '{"a":']) * rng.randrange(2, DEEPEST)


def closed_nesting(rng: Random) -> Message:
    """Valid JSON of thousands of levels, alone or as a field of an event."""
    levels = rng.choice([65, 500, 2_000, rng.randrange(1_000, DEEPEST)])
    start, end = rng.choice([("[", "]"), ('{"a":', "}")])
    nested = start * levels + "1" + end * levels
    event = f'{{"type":"{rng.choice(TYPES)}","{rng.choice(FIELDS)}":{nested}}}'
    return rng.choice([nested, event])


def bad_number(rng: Random) -> Message:
    number, name = rng.choice(BAD_NUMBERS), rng.choice(FIELDS)
    return f'{{"type":"{rng.choice(TYPES)}","{name}":{number}}}'


def bad_base64(rng: Random) -> Message:
    text = _base64(rng.randbytes(rng.randrange(3, 4000)))
    cut = rng.randrange(len(text))
    return _append(text[:cut] + rng.choice(["*", "\n", "=", "\u00e9"]) + text[cut:])


def bad_pcm16(rng: Random) -> Message:
    """Half a sample too much, mostly."""
    return _append(_base64(rng.randbytes(rng.randrange(2000) | rng.randrange(2))), format="pcm16")


def bad_floats(rng: Random) -> Message:
    """Samples that are no numbers, or far beyond full scale, or of no size, among good ones."""
    samples = np.full(rng.randrange(1, 4000), 0.1, np.float32)
    for sample in rng.choices(BAD_SAMPLES, k=rng.randrange(1, 4)):
        samples[rng.randrange(samples.size)] = sample
    return _append(_base64(samples.astype("<f4").tobytes()), format="pcm_f32le")


def binary(rng: Random) -> Message:
    return rng.randbytes(rng.randrange(300))


def close(rng: Random) -> Message:
    return json.dumps({"type": "session.close", "reason": ASKED + "x" * rng.randrange(100)})


KINDS: dict[Callable[[Random], Message], int] = {
    wrong_fields: 40,
    wrong_type: 5,
    unknown_type: 5,
    broken_json: 10,
    unclosed_nesting: 5,
    closed_nesting: 5,
    bad_number: 5,
    bad_base64: 5,
    bad_pcm16: 5,
    bad_floats: 9,
    binary: 5,
    close: 1,
}
"""How often each comes, in hundredths."""


def drawn(rng: Random) -> tuple[str, Message]:
    """One hostile message, and its kind."""
    kind = rng.choices(list(KINDS), list(KINDS.values()))[0]
    return kind.__name__, kind(rng)


def huge(number: int) -> tuple[str, str]:
    """An event of about 15 MiB, and the code that it is refused with."""
    room = HUGE - 200
    events: list[tuple[dict[str, Any], str]] = [
        ({"type": "input_audio_buffer.append", "audio": "A" * room}, "input_backpressure"),
        ({"type": "input_audio_buffer.append", "audio": "*" * room}, "input_backpressure"),
        ({"type": "session.update", "session": {"instructions": "x" * room}}, "prompt_too_long"),
        ({"type": "x" * room}, "unknown_event"),
        ({"type": "session.heartbeat", "event_id": "x" * room}, "bad_event"),
        ({"type": "input_audio_buffer.append", "audio": "A" * HUGE}, "event_too_large"),
    ]
    event, code = events[number % len(events)]
    return json.dumps(event), code


def broken_ogg(rng: Random) -> bytes:
    return b"OggS" + rng.randbytes(rng.randrange(3000))


def garbage_in_ogg(rng: Random) -> bytes:
    """Whole and valid pages of an Opus stream, whose packets are none."""
    return opus_stream([rng.randbytes(rng.randrange(1, 500)) for _ in range(4)])


def _fields(rng: Random) -> dict[str, Any]:
    return {rng.choice(FIELDS): value(rng) for _ in range(rng.randrange(5))}


def _append(audio: str, **fields: Any) -> str:
    return json.dumps({"type": "input_audio_buffer.append", "audio": audio, **fields})


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
