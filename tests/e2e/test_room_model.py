"""The real engine in a room: a frame out for a frame in, the same words on both text channels."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from livekit import rtc

from tests.e2e.accounts import Account, check_chain, check_loss, check_under_way
from tests.e2e.asking import QUESTIONS, spoken
from tests.e2e.caller import EAR_RATE, Caller, Sound
from tests.e2e.phones import phone_in, set_status
from tests.e2e.processes import ROOT, LiveKitServer, WorkerProcess
from tests.e2e.sounds import at_microphone, last_recording, pause

pytestmark = pytest.mark.e2e
SAID = tuple(question.words for question in QUESTIONS[:2])
PAUSE_SECONDS = 2
FRAME, PIECE = 1920, 480
WAY_BACK = 9
"""Frames that fit between the engine and the receiver's ear: queue, source, jitter buffer."""
LEAST_MADE = 20
FRAME_MS = 80
VALUES = {"false", "true", "initializing", "listening", "speaking", "refused", "closed"}
"""What the table of messages sets like the names of fields."""
AUDIBLE = 1e-3
"""What Opus makes of silence stays below."""


@pytest.fixture(scope="module")
def worker(
    livekit: LiveKitServer, tiny_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WorkerProcess]:
    """The real engine; it keeps recordings in its folder, and what the engine itself gave."""
    folder = tmp_path_factory.mktemp("tiny")
    options = ("--model", str(tiny_checkpoint), "--recording", str(folder), "--drain-time", "1")
    module = ("tests.fakes.watched_worker", "--record", str(folder))
    process = WorkerProcess(folder, livekit.url, *options, module=module)
    process.start()
    yield process
    process.stop()


# contract: C6, D1, H5
@pytest.mark.figures
async def test_a_frame_out_for_a_frame_in_and_the_same_words(
    livekit: LiveKitServer, worker: WorkerProcess, room_name: str
) -> None:
    async with Caller(livekit.url, room_name) as who:
        await who.until_agent()
        await who.until("the agent's sound", lambda: who.heard)
        first, heard_before = await who.stats(), len(who.heard)
        for segments, words in enumerate(SAID, start=1):
            await who.say(at_microphone(spoken(words)))
            # The agent goes on talking once it hears speech and a pause: not after the cancel.
            await who.say(pause(PAUSE_SECONDS))
            await who.until("its words", lambda n=segments: len(deltas(who)) >= n)
            account, heard = await who.stats(), len(who.heard)
            check_under_way(account)
            check_received(first, account, heard - heard_before)
            # A soft cancel closes the utterance, so that its transcript becomes final.
            await who.rpc("cancel")
            await who.until("all words on both channels", lambda: complete(who))
        sound = who.sound()
    check_words(who)
    check_messages(who)
    assert sound.std() > AUDIBLE

    ended = await worker.ended(account["session"])
    check_chain(ended)
    check_loss(ended)
    heard_frames, said = recording(worker, ended)
    check_recording(heard_frames, said)
    check_engine(last_recording(worker.folder), ended)


def check_received(before: Account, now: Account, pieces: int) -> None:
    """At the receiver's ear, a frame for each that the engine made meanwhile."""
    stepped = now["frames"]["stepped"] - before["frames"]["stepped"]
    heard = pieces * PIECE / FRAME
    print(f"{stepped} frames stepped, {heard:.1f} heard meanwhile")
    assert abs(heard - stepped) <= WAY_BACK


def check_engine(given: dict[str, np.ndarray[Any, Any]], ended: Account) -> None:
    """As the engine gave them: finite floats, one answer for each frame in, no two alike."""
    frames = ended["frames"]
    pcm = given["pcm"]
    print(f"{frames['submitted']} frames submitted, {len(pcm)} given, peak {np.abs(pcm).max():.3f}")
    assert frames["stepped"] <= len(pcm) <= frames["submitted"]
    assert given["seqs"].tolist() == list(range(1, len(pcm) + 1))
    assert set(given["epochs"].tolist()) == {0}
    assert pcm.dtype == np.float32 and pcm.shape == (len(pcm), FRAME)
    assert np.isfinite(pcm).all()
    assert (pcm.std(axis=1) > 0).all(), "a frame is constant"


def check_words(who: Caller) -> None:
    """Segment for segment, in order: as text stream, as final message, as the pieces of it."""
    said = deltas(who)
    print("words:", said)
    assert len(said) >= len(SAID) and all(text.strip() for text in said.values())
    assert len(who.segments) == len(said)
    assert list(streams(who).items()) == list(finals(who).items()) == list(said.items())
    assert who.agent_track is not None
    assert {segment.track for segment in who.segments} == {who.agent_track.sid}


def check_messages(who: Caller) -> None:
    """The fields that the document has, and times that the frame clock can have shown."""
    for kind, fields in documented().items():
        for message in who.of_type(kind):
            # Some fields of a state are there where they have something to say.
            further = message.keys() - {"type", "t_ms"}
            assert further <= fields if kind == "state" else further == fields, message
    assert {message["type"] for message in who.messages} == {"transcript", "state", "stats"}
    assert all(message.keys() >= {"state", "session"} for message in who.of_type("state"))
    assert not any(message["t_ms"] % FRAME_MS for message in who.messages)
    assert all(m["t_ms"] == m["frames"]["stepped"] * FRAME_MS for m in who.of_type("stats"))
    said = [m["t_ms"] for m in who.of_type("transcript") if not m["final"]]
    assert said == sorted(set(said)), "two frames at one time, or not in order"
    assert said[0] > 0
    for message in who.of_type("transcript"):
        if message["final"]:
            words = [m for m in who.of_type("transcript") if m["segment"] == message["segment"]]
            assert message == words[-1] and message["t_ms"] >= words[-2]["t_ms"]


def documented() -> dict[str, set[str]]:
    """Of each type of message the fields, as the table of the document has them."""
    text = (ROOT / "docs" / "rooms.md").read_text(encoding="utf-8")
    table = text.split("| `type` | further fields |", 1)[1].split("\n\n", 1)[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", table, re.MULTILINE)
    return {kind: set(re.findall(r"`(\w+)`", fields)) - VALUES for kind, fields in rows}


def recording(worker: WorkerProcess, ended: Account) -> tuple[Sound, Sound]:
    """What was heard and what was said, each `[N, 1920]`, a row for every step."""
    path = worker.folder / f"{ended['session']}.flac"
    recorded, rate = soundfile.read(path, dtype="float32")
    assert rate == EAR_RATE and len(recorded) == ended["frames"]["stepped"] * FRAME
    heard, said = (recorded[:, channel].reshape(-1, FRAME) for channel in (0, 1))
    return heard, said


def check_recording(heard: Sound, said: Sound) -> None:
    """What was heard is speech; what was said is one frame a step, no two of them alike."""
    assert np.abs(heard).max() > 0.1
    # Silence stands where a cancel held the agent.
    voiced = said[said.any(axis=1)]
    distinct = len(np.unique(voiced, axis=0))
    print(f"{len(said)} frames, {len(voiced)} with sound, {distinct} different ones")
    assert distinct == len(voiced) > 20


def streams(who: Caller) -> dict[str, str]:
    return {segment.id: segment.text for segment in who.segments}


def finals(who: Caller) -> dict[str, str]:
    return {m["segment"]: m["text"] for m in who.of_type("transcript") if m["final"]}


def deltas(who: Caller) -> dict[str, str]:
    """Segments as the messages on the way spell them, open ones too."""
    said: dict[str, str] = {}
    for message in who.of_type("transcript"):
        if not message["final"]:
            said[message["segment"]] = said.get(message["segment"], "") + message["text"]
    return said


def complete(who: Caller) -> bool:
    """Whether every segment that was begun has come to its end on both channels."""
    return streams(who).keys() == finals(who).keys() == deltas(who).keys()


# contract: H2, H3
async def test_who_may_not_publish_hears_the_agent_all_the_same(
    livekit: LiveKitServer, worker: WorkerProcess, room_name: str
) -> None:
    async with Caller(livekit.url, room_name, may_publish=False) as who:
        await who.until_agent()
        with pytest.raises(rtc.participant.PublishTrackError):
            await who.publish()
        account = await until_heard_and_read(who)
    assert account["hearing"]["clocked"] == account["hearing"]["made"] > LEAST_MADE
    assert account["hearing"]["frames_in"] == 0
    await check_silence_heard(worker, account)


# contract: H2, H3, H7
async def test_a_telephone_that_is_active_before_its_audio_is_clocked_by_silence_and_hears(
    livekit: LiveKitServer, worker: WorkerProcess, room_name: str
) -> None:
    phone = phone_in(livekit.url, room_name, status="active")
    await phone.connect()
    account = await until_heard_and_read(phone)
    assert account["hearing"]["clocked"] == account["hearing"]["made"] > LEAST_MADE
    assert account["hearing"]["frames_in"] == 0
    await set_status(phone, "hangup")
    await phone.leave()
    await check_silence_heard(worker, account)


# contract: H2, H3
async def test_who_comes_with_a_muted_microphone_is_clocked_by_silence_and_hears(
    livekit: LiveKitServer, worker: WorkerProcess, room_name: str
) -> None:
    async with Caller(livekit.url, room_name) as who:
        await who.publish(muted=True)
        account = await until_heard_and_read(who)
    # The audio stream itself gives silence for a track of which no packet has come.
    assert account["media"] == [] and account["hearing"]["frames_in"] > 0
    assert account["hearing"]["made"] > LEAST_MADE
    await check_silence_heard(worker, account)


async def until_heard_and_read(who: Caller) -> Account:
    """Until the agent has reached this person's ear and screen; its account then."""
    await who.until("three seconds of the agent", lambda: len(who.heard) > 150)
    await who.until("its voice", lambda: who.sound()[-EAR_RATE:].std() > AUDIBLE)
    await who.until("its words", lambda: deltas(who))
    return await who.stats()


async def check_silence_heard(worker: WorkerProcess, account: Account) -> None:
    """All that the model heard in this call is digital silence, frame for frame."""
    ended = await worker.ended(account["session"])
    check_chain(ended)
    heard, _ = recording(worker, ended)
    assert not heard.any()
