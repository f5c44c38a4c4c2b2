"""People in a room: several at once, agents, and those who vanish and return."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack

import numpy as np
import pytest
from livekit import rtc

from agent import rpc
from model import FRAME_SAMPLES
from tests.e2e.accounts import Account, check_chain, check_loss
from tests.e2e.caller import EAR_RATE, Caller
from tests.e2e.loudness import ALONE, ROBOT, TOGETHER, TONES, check_alone, check_together
from tests.e2e.patience import within
from tests.e2e.processes import LiveKitServer, WorkerProcess
from tests.e2e.same_call import check_ended, check_goes_on, heard_again
from tests.e2e.sounds import last_recording, pause, strength, tone
from tests.e2e.vanishing import until_lost, vanish, watcher_in

pytestmark = pytest.mark.e2e
GRACE_SECONDS = 8
WORKER_OPTIONS = ("--resume-grace", str(GRACE_SECONDS), "--allow-sampling")
GRACE_FRAMES = round(GRACE_SECONDS / 0.08)
MOST_LATE = 2
LED_FRAMES = 10
"""Of two seconds that somebody spoke alone."""
NOISE = 1e-3
"""What Opus makes of silence stays below."""
REFUSED = (
    ("cancel", "{}", "response_not_active"),
    ("cancel", '{"mode": "hard"}', "response_not_active"),
    ("clear", "", "response_not_active"),
    ("cancel", '{"mode": "loud"}', "bad_event"),
)
"""Method, payload and code, where nothing is being said."""
HALF_A_SECOND = EAR_RATE // 2
MOST_ON_THE_WAY = 8
"""Frames between a microphone and the engine."""
LEAST_MUTED, SILENT_PEAK = 10, 0.001
INTERRUPTIONS = {
    800: rtc.SimulateScenarioKind.SIMULATE_SIGNAL_RECONNECT,
    1000: rtc.SimulateScenarioKind.SIMULATE_MIGRATION,
}
"""By the Hz said afterwards: one resumes its connection; the other cannot, and has a new one."""


# contract: H1, H2
async def test_three_loud_people_are_heard_unclipped_and_an_agent_is_not(
    livekit: LiveKitServer, echo_worker: WorkerProcess, room_name: str
) -> None:
    people = [Caller(livekit.url, room_name, identity=f"at {hz} Hz") for hz in TONES]
    robot = Caller(livekit.url, room_name, identity="robot", kind="agent", dispatch=None)
    async with AsyncExitStack() as calls:
        for who in (*people, robot):
            await calls.enter_async_context(who)
        await people[0].until_agent()
        session = (await people[0].stats())["session"]
        alone = people[0].say(tone(TONES[0], 3, level=ALONE))
        await asyncio.gather(alone, *(who.say(pause(3)) for who in people[1:]))
        each = zip(people, TONES, strict=True)
        playing = [who.say(tone(hz, 5, level=TOGETHER)) for who, hz in each]
        await asyncio.gather(*playing, robot.say(tone(ROBOT, 5, level=TOGETHER)))
    print("counters:", await echo_worker.ended(session))
    heard = last_recording(echo_worker.folder)["pcm"]
    # In half a second each of the tones, their overtones and sums has whole periods.
    parts = [
        heard[i : i + EAR_RATE // 2] for i in range(0, len(heard) - EAR_RATE // 2, EAR_RATE // 8)
    ]
    check_alone(max(parts, key=lambda part: strength(part, TONES[0], EAR_RATE)))
    check_together(parts)


# contract: H4
async def test_killed_and_back_after_the_news_of_it_is_the_same_call(
    livekit: LiveKitServer, echo_worker: WorkerProcess, room_name: str
) -> None:
    before = await vanish(livekit, room_name, "visitor")
    async with watcher_in(livekit.url, room_name) as watcher:
        lost = await until_lost(watcher, "visitor")
        async with Caller(livekit.url, room_name, identity="visitor") as back:
            after = await heard_again(back)
        await check_ended(echo_worker, before["session"])
    check_goes_on(before, lost, after)


# contract: H4
async def test_killed_and_back_before_the_news_of_it_is_the_same_call(
    livekit: LiveKitServer, echo_worker: WorkerProcess, room_name: str
) -> None:
    before = await vanish(livekit, room_name, "visitor")
    async with watcher_in(livekit.url, room_name) as watcher:
        others = watcher.room.remote_participants
        lost = others["visitor"]

        def replaced() -> bool:
            return "visitor" in others and others["visitor"].sid != lost.sid

        async with Caller(livekit.url, room_name, identity="visitor") as back:
            await watcher.until("the other connection", replaced)
            after = await heard_again(back)
        await check_ended(echo_worker, before["session"])
    check_goes_on(before, after)


# contract: H4
async def test_a_second_connection_of_one_identity_keeps_the_call(
    livekit: LiveKitServer, echo_worker: WorkerProcess, room_name: str
) -> None:
    reasons: list[object] = []
    async with Caller(livekit.url, room_name, identity="twin") as first:
        first.room.on("disconnected", lambda reason: reasons.append(reason))
        await first.until_agent()
        before = await first.stats()
        async with Caller(livekit.url, room_name, identity="twin") as second:
            await first.until("to be put out", lambda: reasons)
            after = await heard_again(second)
    assert reasons == [rtc.DisconnectReason.DUPLICATE_IDENTITY]
    await check_ended(echo_worker, before["session"])
    check_goes_on(before, after)


# contract: H2, H3
async def test_a_microphone_that_is_published_anew_is_heard_in_the_same_call(
    livekit: LiveKitServer, echo_worker: WorkerProcess, room_name: str
) -> None:
    async with Caller(livekit.url, room_name) as who:
        await who.until_agent()
        await who.say(tone(500, 2))
        before = await who.stats()
        await who.unpublish()
        async with within("the agent to have no track"):
            while (await who.stats())["media"]:
                continue
        after = await heard_again(who)
    assert len(before["media"]) == len(after["media"]) == 1
    assert before["media"][0]["track"] != after["media"][0]["track"]
    await check_ended(echo_worker, before["session"])
    check_goes_on(before, after)


# contract: H2, H4
async def test_muted_resumed_and_migrated_it_is_the_same_call(
    livekit: LiveKitServer, echo_worker: WorkerProcess, room_name: str
) -> None:
    async with Caller(livekit.url, room_name) as who:
        await who.until_agent()
        first = await heard_again(who, 500)
        muted = await say_muted(who)
        accounts = [first, muted[1], await heard_again(who, 600)]
        for hz, interruption in INTERRUPTIONS.items():
            await interrupt(who, interruption)
            accounts.append(await heard_again(who, hz))
    await check_ended(echo_worker, first["session"])
    check_goes_on(*accounts)
    begin, end = (account["frames"]["stepped"] for account in muted)
    frames = last_recording(echo_worker.folder)["pcm"].reshape(-1, FRAME_SAMPLES)
    silent = frames[begin + MOST_ON_THE_WAY : end]
    print(f"{len(silent)} frames while muted, peak {np.abs(silent).max()}")
    assert len(silent) >= LEAST_MUTED and np.abs(silent).max() < SILENT_PEAK


async def say_muted(who: Caller) -> tuple[Account, Account]:
    """Something that nobody is to hear; the account at the mute and before the end of it."""
    assert who.track is not None
    who.track.mute()
    begin = await who.stats()
    await who.say(tone(900, 2))
    end = await who.stats()
    who.track.unmute()
    return begin, end


async def interrupt(who: Caller, kind: rtc.SimulateScenarioKind.ValueType) -> None:
    """Break this person's connection, until the library has mended it."""
    mended: list[bool] = []
    who.room.on("reconnected", lambda: mended.append(True))
    await who.room.simulate_scenario(kind)
    await who.until("the connection to be mended", lambda: mended)


# contract: H4
async def test_killed_and_gone_frees_the_slot_when_the_grace_is_over(
    livekit: LiveKitServer, echo_worker: WorkerProcess, room_name: str
) -> None:
    before = await vanish(livekit, room_name, "visitor")
    async with watcher_in(livekit.url, room_name) as watcher:
        lost = await until_lost(watcher, "visitor")
        assert lost["session"] == before["session"]
        assert echo_worker.ready()["used_slots"] == 1
        account = await echo_worker.ended(lost["session"])
    assert account["reason"] == "resume_grace"
    assert echo_worker.ready()["used_slots"] == 0
    # Silence clocks the call while it waits, so that its frames tell how long.
    waited = account["frames"]["accepted"] - lost["frames"]["accepted"]
    print(f"{waited} frames between the loss and the end, of {GRACE_FRAMES}")
    # The clock makes none early, leaves out what a busy machine missed, and the account came after
    # the news.
    assert 0.9 * GRACE_FRAMES < waited <= GRACE_FRAMES + MOST_LATE
    check_chain(account)


# contract: H2, H4
async def test_the_next_person_leads_when_the_lead_leaves(
    livekit: LiveKitServer, echo_worker: WorkerProcess, room_name: str
) -> None:
    lead = Caller(livekit.url, room_name, identity="lead")
    async with lead, Caller(livekit.url, room_name, identity="next") as successor:
        await lead.until_agent()
        await lead.say(tone(500, 1))
        await asyncio.gather(lead.say(tone(500, 1)), successor.say(tone(700, 1)))
        before = await lead.stats()
        assert len(before["media"]) == 2 and before["hearing"]["mixed"] > 0
        await lead.leave()
        async with within("the agent to have one track"):
            while len((alone := await successor.stats())["media"]) > 1:
                continue
        after = await heard_again(successor)
    heard, earlier = after["hearing"], alone["hearing"]
    assert heard["mixed"] == earlier["mixed"], "the one who is left is mixed in"
    assert heard["lead_frames"] - earlier["lead_frames"] >= LED_FRAMES
    assert after["media"][0]["track"] == before["media"][1]["track"]
    await check_ended(echo_worker, before["session"])
    check_goes_on(before, after)


# contract: B1, B5, H1, H6
async def test_metadata_chooses_voice_persona_seed_and_who_is_heard(
    livekit: LiveKitServer, echo_worker: WorkerProcess, room_name: str
) -> None:
    asked = {"voice": "OTHER.pt", "persona": "You are Echo, a nymph.", "seed": 7}
    metadata = json.dumps({**asked, "heard": "first"})
    async with Caller(livekit.url, room_name, identity="first", dispatch=metadata) as first:
        await first.until_agent()
        async with Caller(livekit.url, room_name, identity="second") as second:
            await asyncio.gather(first.say(tone(TONES[0], 2)), second.say(tone(TONES[1], 2)))
            session = (await first.stats())["session"]
            await first.leave()
            # Who is not heard does not keep the call.
            await check_ended(echo_worker, session)
    given = last_recording(echo_worker.folder)
    assert {key: given[key].item() for key in asked} == asked
    middle = np.array_split(given["pcm"], 4)[2]
    assert strength(middle, TONES[0], EAR_RATE) > 0.1 > 20 * strength(middle, TONES[1], EAR_RATE)


# contract: H6
async def test_bad_metadata_is_refused_where_the_person_can_read_it(
    livekit: LiveKitServer, echo_worker: WorkerProcess, room_name: str
) -> None:
    async with Caller(livekit.url, room_name, dispatch='{"voise": "ECHO.pt"}') as who:
        await who.until("a refusal", lambda: who.of_type("state"))
        message = who.of_type("state")[0]
    assert message["state"] == "refused"
    assert message["code"] == "invalid_session_config"
    assert "voise" in message["message"] and "voice" in message["message"]
    assert echo_worker.ready()["used_slots"] == 0


# contract: E2, H5
async def test_cancel_falls_silent_and_the_rpc_methods_answer(
    livekit: LiveKitServer, echo_worker: WorkerProcess, room_name: str
) -> None:
    async with Caller(livekit.url, room_name) as who:
        await who.until_agent()
        await check_refusals(who)
        playing = asyncio.create_task(who.say(tone(500, 4)))
        await who.until_agent("speaking")
        await who.until("the echo", lambda: echoes(who))
        await who.rpc("cancel")
        account = await who.stats()
        assert account["epoch"] == 0 and account["frames"]["holds"] == 1
        await who.until("silence at the ear", lambda: silent(who))
        assert not playing.done(), "it was silent only when nobody spoke to it any more"
        await who.until("an end of the transcript", lambda: who.segments)
        await playing
        # The person has spoken and paused; the next utterance is heard again.
        await asyncio.sleep(1)
        playing = asyncio.create_task(who.say(tone(500, 4)))
        await who.until("the echo", lambda: echoes(who))
        anew = (("cancel", '{"mode": "hard"}'), ("clear", ""))
        for epoch, (method, payload) in enumerate(anew, start=1):
            await who.until("an utterance", lambda n=epoch: utterances(who) > n)
            await who.rpc(method, payload)
            assert (await who.stats())["epoch"] == epoch
        await playing
    ended = await echo_worker.ended(account["session"])
    check_chain(ended)
    check_loss(ended)


async def check_refusals(who: Caller) -> None:
    """Nothing is being said yet, and nothing is changed."""
    before = await who.stats()
    assert {"hearing", "frames", "speaker", "media", "unused", "position"} <= before.keys()
    for method, payload, code in REFUSED:
        with pytest.raises(rtc.RpcError) as refused:
            await who.rpc(method, payload)
        assert (refused.value.code, refused.value.data) == (rpc.REFUSED, code), (method, payload)
    after = await who.stats()
    assert (after["epoch"], after["frames"]["holds"]) == (before["epoch"], 0) == (0, 0)
    assert after["speaker"]["cleared"] == 0


def echoes(who: Caller) -> bool:
    return strength(who.sound()[-HALF_A_SECOND:], 500, EAR_RATE) > 0.1


def silent(who: Caller) -> bool:
    return bool(np.abs(who.sound()[-HALF_A_SECOND:]).max() < NOISE)


def utterances(who: Caller) -> int:
    """How often the agent has said that it begins to speak."""
    return sum(message["state"] == "speaking" for message in who.of_type("state"))
