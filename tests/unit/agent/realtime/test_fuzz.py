"""Malformed and hostile messages: the server stays up, and another session's audio is unbroken.

The messages of a run are drawn from one seed and sent over real sockets, many to a connection. Only
those count that a session which had been admitted has read.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

import aiohttp
import numpy as np
import pytest

from tests.conftest import SEED
from tests.fakes.engine import FakeEngine
from tests.fakes.ogg import opus_stream
from tests.fakes.server import Client, Server, serving, until_free
from tests.unit.agent.realtime import hostile, offers
from tests.unit.agent.realtime.bystander import Bystander, repeat_number
from tests.unit.agent.realtime.footprint import Footprint

pytestmark = pytest.mark.unit

MESSAGES = 20_000
PER_CONNECTION = 100
ROUNDS_BETWEEN_HUGE = 8
"""Each round of so many sends one of the events of about 15 MiB, which are 6, in 2 moods."""
MAX_LOST = MESSAGES // 100
"""Two sessions of 100 messages each."""
MAX_GROWTH_BYTES = 4 * 2**20
"""Of the last 7,500 messages: a session, or half a kilobyte of each message, that stayed."""
MOODS = {"stock": "/v1/realtime?model=m", "duplex": "/v1/duplex?model=m"}
UNOPENED = ["/v1/realtime", "/v1/duplex", "/v1/realtime?duplex=1"]
MARK = "evt_the_mark"


@dataclass
class Tally:
    """What became of everything that was sent."""

    live: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Messages that an admitted session has read, by mood and kind."""
    opening: Counter[tuple[str, str]] = field(default_factory=Counter)
    """First messages of connections without a session, by what came of them and kind."""
    errors: Counter[str] = field(default_factory=Counter)
    """Codes with which messages of live sessions were answered."""
    offers: Counter[tuple[str, int]] = field(default_factory=Counter)
    """By kind and status."""
    streams: int = 0
    """Ogg streams that a call with a handshake has read."""
    lost: int = 0
    """Messages sent to live sessions that ended before they could have read all of them.

    None of the kinds but `close`, which is read, ends a session: what may be lost is what stood
    behind a cut, where a busy machine kept the reader from its socket.
    """


async def attack(server: Server, rng: Random, tally: Tally) -> None:
    """One admitted session and its messages; fewer where one of them closes it."""
    mood = rng.choice(list(MOODS))
    sent: Counter[tuple[str, str]] = Counter()
    async with server.connect(MOODS[mood]) as client:
        await client.until("session.created")
        reading = asyncio.create_task(read_all(client, tally))
        try:
            for _ in range(PER_CONNECTION):
                kind, message = hostile.drawn(rng)
                await send(client, message)
                sent[mood, kind] += 1
                if kind == "close":
                    break
            await client.send("no.such.event", event_id=MARK)
        except (ConnectionError, aiohttp.ClientError):
            """The server ended it, which the reader finds too."""
        if await reading:
            tally.live += sent
        else:
            tally.lost += sent.total()


async def send(client: Client, message: hostile.Message) -> None:
    if isinstance(message, bytes):
        await client.socket.send_bytes(message)
    else:
        await client.socket.send_str(message)


async def read_all(client: Client, tally: Tally) -> bool:
    """Whether the session read everything: it answered the mark, or closed as it was asked to."""
    while (event := await client.event()) is not None:
        client.seen.clear()
        if event["type"] == "session.closed":
            return bool(event["reason"].startswith(hostile.ASKED))
        if event["type"] != "error":
            continue
        if event["error"]["event_id"] == MARK:
            return True
        tally.errors[event["error"]["code"]] += 1
        if "non-finite" in event["error"]["message"]:
            tally.errors["non-finite"] += 1
    return False


async def attack_opening(server: Server, rng: Random, tally: Tally) -> None:
    """A connection whose first message is hostile."""
    kind, message = hostile.drawn(rng)
    async with server.connect(rng.choice(UNOPENED)) as client:
        await send(client, message)
        await client.send("no.such.event", event_id=MARK)
        while (event := await client.event()) is not None:
            if event["type"] == "error" and event["error"]["event_id"] == MARK:
                break
        outcome = "opened" if "session.created" in client.types else "refused"
        tally.opening[outcome, kind] += 1
    await until_free(server, but=1)


async def attack_huge(server: Server, number: int, tally: Tally) -> None:
    """It is refused whole, and its session goes on."""
    text, code = hostile.huge(number)
    for mood, path in MOODS.items():
        async with server.connect(path) as client:
            await client.until("session.created")
            await client.socket.send_str(text)
            assert (await client.until("error"))["error"]["code"] == code
            await client.send("session.heartbeat")
            await client.until("session.heartbeat_ack")
            tally.live[mood, "huge"] += 1
        await until_free(server, but=1)


async def attack_sdp(server: Server, offer: str, rng: Random, tally: Tally) -> None:
    """An offer with something wrong is refused as such, or answered; that call is hung up."""
    kind = rng.choice(offers.KINDS)
    headers = {"Content-Type": "application/sdp"}
    url = server.url + "/v1/realtime/calls"
    async with server.http.post(url, data=kind(offer, rng), headers=headers) as response:
        tally.offers[kind.__name__, response.status] += 1
        if response.status != 201:
            assert response.status == 400, (kind, await response.text())
            assert (await response.json())["error"]["code"] == "invalid_sdp"
    if response.status == 201:
        async with server.http.delete(server.url + response.headers["Location"]) as ended:
            assert ended.status == 204
    await until_free(server, but=1)


async def attack_ogg(server: Server, rng: Random, tally: Tally) -> None:
    """A call of NVIDIA's client whose stream is broken, or no stream at all."""
    for stream in (hostile.broken_ogg(rng), hostile.garbage_in_ogg(rng)):
        async with server.http.ws_connect(server.ws + "/api/chat") as socket:
            assert (await socket.receive()).data == b"\x00", "the handshake of an admitted call"
            await socket.send_bytes(b"\x09" + rng.randbytes(rng.randrange(300)))
            await socket.send_bytes(b"\x01" + stream)
            tally.streams += 1
        await until_free(server, but=1)


def drain(engine: FakeEngine) -> None:
    """What reached the engine is sound; forget it, since only the fake keeps it."""
    for pcm in engine.heard:
        assert np.abs(pcm).max() <= 1.0, "and so every sample is a number"
    engine.heard.clear()
    engine.stepped.clear()
    engine.prepared.clear()


async def assault(server: Server, engine: FakeEngine, bystander: Bystander) -> Tally:
    """Everything, until so many messages were read; the first quarter is the warm-up."""
    tally, footprint, progress = Tally(), Footprint(), []
    offer = await offers.good_offer("audio")
    looks = [MESSAGES // 4, MESSAGES * 5 // 8, MESSAGES]
    number = 0
    while looks:
        rng = Random(f"{SEED}-{number}")
        await attack(server, rng, tally)
        await until_free(server, but=1)
        await attack_opening(server, rng, tally)
        await attack_ogg(server, rng, tally)
        await attack_sdp(server, offer, rng, tally)
        if number % ROUNDS_BETWEEN_HUGE == 0:
            await attack_huge(server, number // ROUNDS_BETWEEN_HUGE, tally)
        drain(engine)
        number += 1
        progress.append(len(bystander.heard))
        if tally.live.total() >= looks[0]:
            looks.pop(0)
            footprint.take()
    footprint.check(MAX_GROWTH_BYTES)
    tenths = progress[:: number // 10]
    assert all(before < after for before, after in pairwise(tenths)), "talking all the time"
    return tally


def check(tally: Tally) -> None:
    """Every kind of attack was carried out on a session that lived."""
    print(tally)
    assert tally.live.total() >= MESSAGES
    assert tally.lost <= MAX_LOST
    kinds = {kind.__name__ for kind in hostile.KINDS}
    assert set(tally.live) == {(mood, kind) for mood in MOODS for kind in {*kinds, "huge"}}
    assert {kind for _, kind in tally.opening} == kinds
    assert {outcome for outcome, _ in tally.opening} == {"opened", "refused"}
    assert {kind for kind, _ in tally.offers} == {kind.__name__ for kind in offers.KINDS}
    assert {status for _, status in tally.offers} == {201, 400}
    assert tally.errors["non-finite"] and tally.streams
    assert not tally.errors["internal_error"]


@pytest.mark.figures
@pytest.mark.timeout(900)
async def test_hostile_messages() -> None:
    engine = FakeEngine(max_sessions=2, script=repeat_number)
    async with serving(engine) as server, server.connect(MOODS["duplex"]) as client:
        await client.until("session.updated")
        bystander, session = Bystander(client), server.manager.sessions[0]
        tally = await assault(server, engine, bystander)
        await bystander.finish()
        assert bystander.heard == list(range(1, bystander.sent + 1))
        counters = session.counters
        assert counters.accepted == counters.emitted == bystander.sent
        async with server.http.get(server.url + "/health") as response:
            assert response.status == 200
    assert engine.stats().used == 0
    check(tally)


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
