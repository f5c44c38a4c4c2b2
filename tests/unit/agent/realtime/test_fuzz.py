"""Malformed and hostile messages: the server stays up, and another session's audio is unbroken.

The messages of a run are drawn from one seed and sent over real sockets, many to a connection.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import json
from random import Random
from typing import Any

import aiohttp
import numpy as np
import psutil
import pytest

from tests.conftest import SEED
from tests.fakes.engine import FakeEngine
from tests.fakes.ogg import opus_stream
from tests.fakes.server import Client, Server, serving, silence, until_free

pytestmark = pytest.mark.unit

MESSAGES = 20_000
PER_CONNECTION = 100
OPENED = 0.9
"""Share of the connections that begin as they should: a refused opening ends one at once."""
ROUNDS_BETWEEN_HUGE = 25
"""Each of the events of about 15 MiB is sent in one round of so many."""
HUGE = 15 * 2**20
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
    "no.such.event",
]
SDP_LINES = [
    "v=0",
    "o=- 1 1 IN IP4 127.0.0.1",
    "s=-",
    "t=0 0",
    "m=audio 9 UDP/TLS/RTP/SAVPF 0",
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
        base64.b64encode(np.float32([np.nan, np.inf]).tobytes()).decode(),
        base64.b64encode(rng.randbytes(rng.randrange(4000))).decode(),
        "../../../etc/passwd.pt",
    ]
    if depth > 3 or rng.random() < 0.6:
        return rng.choice(scalars)
    if rng.random() < 0.5:
        return [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice(FIELDS): value(rng, depth + 1) for _ in range(rng.randrange(4))}


def message(rng: Random) -> str | bytes:
    """One hostile message."""
    kind = rng.random()
    if kind < 0.05:
        return rng.randbytes(rng.randrange(300))
    if kind < 0.1:
        return "[" * rng.randrange(100_000)
    event = {"type": rng.choice(TYPES) if kind < 0.95 else value(rng)}
    event |= {rng.choice(FIELDS): value(rng) for _ in range(rng.randrange(5))} | event
    text = json.dumps(event)
    if kind < 0.2:
        cut = rng.randrange(len(text))
        return text[:cut] + rng.choice(["", "\x00", "}", '"', "NaN", "\u2028"]) + text[cut:]
    return text


async def attack(server: Server, rng: Random, count: int) -> None:
    """Send so many messages and read whatever comes back until all are answered or it ends."""
    path = rng.choice(["/v1/realtime?model=m", "/v1/duplex?model=m", "/v1/realtime?duplex=1"])
    async with server.connect(path) as client:
        reading = asyncio.create_task(client.rest())
        try:
            if rng.random() < OPENED:
                await client.send("session.update", session={"type": "realtime"})
            for _ in range(count):
                part = message(rng)
                sending = client.socket.send_bytes if isinstance(part, bytes) else None
                await (sending(part) if sending else client.socket.send_str(str(part)))
        except (ConnectionError, aiohttp.ClientError):
            pass  # the server ended it; that is its right
        finally:
            await client.socket.close()
            await reading


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


async def attack_huge(server: Server, number: int) -> None:
    """It is refused whole, and its connection goes on."""
    text, code = huge(number)
    async with server.connect("/v1/realtime?model=m") as client:
        await client.socket.send_str(text)
        assert (await client.until("error"))["error"]["code"] == code
        await client.send("session.heartbeat")
        await client.until("session.heartbeat_ack")
    await until_free(server, but=1)


async def attack_sdp(server: Server, rng: Random) -> None:
    """An offer of a few lines that are none."""
    body = "\r\n".join(rng.choices(SDP_LINES, k=rng.randrange(6))) + rng.choice(["", "\x00"])
    headers = {"Content-Type": "application/sdp"}
    url = server.url + "/v1/realtime/calls"
    async with server.http.post(url, data=f"v=0\r\n{body}", headers=headers) as response:
        assert response.status == 400
        assert (await response.json())["error"]["code"] == "invalid_sdp"


async def attack_ogg(server: Server, rng: Random) -> None:
    """A call of NVIDIA's client whose stream is broken, or no stream at all."""
    streams = [b"OggS" + rng.randbytes(rng.randrange(3000)), garbage_in_ogg(rng)]
    for stream in streams:
        async with server.http.ws_connect(server.ws + "/api/chat") as socket:
            await socket.receive()
            await socket.send_bytes(b"\x01" + stream)
            await socket.send_bytes(rng.randbytes(rng.randrange(300)))
        await until_free(server, but=1)


def garbage_in_ogg(rng: Random) -> bytes:
    """Whole and valid pages of an Opus stream, whose packets are none."""
    return opus_stream([rng.randbytes(rng.randrange(1, 500)) for _ in range(4)])


async def bystander(client: Client, stop: asyncio.Event) -> int:
    """Another call meanwhile: each frame is answered by one."""
    frames = 0
    while not stop.is_set() or frames < 20:
        await client.append(silence())
        await client.until("response.output_audio.delta")
        frames += 1
        client.seen.clear()
    return frames


async def assault(messages: int, seed: int) -> None:
    engine = FakeEngine(max_sessions=2)
    process = psutil.Process()
    memory: list[int] = []
    async with serving(engine) as server, server.connect("/v1/duplex?model=m") as client:
        await client.until("session.updated")
        stop = asyncio.Event()
        talking = asyncio.create_task(bystander(client, stop))
        rounds = messages // PER_CONNECTION
        for number in range(rounds):
            rng = Random(f"{seed}-{number}")
            await attack(server, rng, PER_CONNECTION)
            await attack_ogg(server, rng)
            await attack_sdp(server, rng)
            if number % ROUNDS_BETWEEN_HUGE == 0:
                await attack_huge(server, number // ROUNDS_BETWEEN_HUGE)
            if number in (rounds // 2, rounds - 1):
                engine.heard.clear()
                engine.stepped.clear()
                gc.collect()
                memory.append(process.memory_info().rss)
        stop.set()
        frames = await talking
        session = next(one for one in server.manager.sessions if one.policy.mood == "duplex")
        assert session.counters.accepted == session.counters.emitted == frames
        async with server.http.get(server.url + "/health") as response:
            assert response.status == 200
    assert memory[-1] - memory[0] < 64 * 2**20, memory
    assert engine.stats().used == 0


async def test_what_is_no_opus_in_valid_pages_ends_its_call_with_a_reason() -> None:
    async with serving(FakeEngine()) as server:
        async with server.http.ws_connect(server.ws + "/api/chat") as socket:
            await socket.receive()
            await socket.send_bytes(b"\x01" + opus_stream([b"\xff" * 3]))
            while (told := await socket.receive()).type is aiohttp.WSMsgType.BINARY:
                if told.data[0] == 5:
                    break
            assert told.data.startswith(b"\x05bad_audio")
        await until_free(server)


@pytest.mark.timeout(900)
async def test_hostile_messages() -> None:
    await assault(MESSAGES, SEED)


BROKEN_PARTS = (
    b"broken",
    b'Content-Disposition: form-data; name="sdp"\r\n\r\nv=0',
    b"\r\nv=0\r\n--x--\r\n",
    b'Content-Disposition: form-data; name="sdp"\r\nContent-Type: text/plain; charset=nope'
    b"\r\n\r\nv=0\r\n--x--\r\n",
    b'Content-Disposition: form-data; name="sdp"\r\nContent-Transfer-Encoding: bogus'
    b"\r\n\r\nv=0\r\n--x--\r\n",
)


@pytest.mark.parametrize("part", BROKEN_PARTS)
async def test_a_broken_form_of_a_call_is_refused(part: bytes) -> None:
    async with serving(FakeEngine()) as server:
        url = server.url + "/v1/realtime/calls"
        form = {"Content-Type": "multipart/form-data; boundary=x"}
        async with server.http.post(url, data=b"--x\r\n" + part, headers=form) as response:
            assert response.status == 400
            assert (await response.json())["error"]["code"] == "invalid_sdp"


async def test_a_call_of_another_type_is_refused() -> None:
    async with serving(FakeEngine()) as server:
        url = server.url + "/v1/realtime/calls"
        async with server.http.post(url, data=b"{}", headers={"Content-Type": "x/y"}) as response:
            assert response.status == 400


async def test_a_body_that_is_not_what_its_encoding_says_is_refused() -> None:
    async with serving(FakeEngine()) as server:
        headers = {"Content-Encoding": "gzip", "Content-Type": "application/sdp"}
        url = server.url + "/v1/realtime/calls"
        async with server.http.post(url, data=b"abc", headers=headers) as response:
            assert response.status == 415
            assert (await response.json())["error"]["code"] == "bad_event"


async def test_a_client_that_has_large_items_read_back_and_reads_nothing_is_cut() -> None:
    engine = FakeEngine(max_sessions=2)
    async with serving(engine) as server, server.connect("/v1/realtime?model=m") as client:
        await client.until("session.created")
        text = {"type": "input_text", "text": "x" * 8 * 2**20}
        item = {"id": "large", "type": "message", "role": "user", "content": [text]}
        await client.send("conversation.item.create", item=item)
        for _ in range(20):
            await client.send("conversation.item.retrieve", item_id="large")
        await until_free(server)
        await client.rest()
    assert client.socket.close_code == 1008
