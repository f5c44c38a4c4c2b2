"""openai-python against the server, unmodified: the websocket, turns, and the WebRTC call."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import numpy as np
import pytest
from openai import APIStatusError

from agent.http import HttpOptions
from tests.e2e.openai_client import Browser, answer_of, append, client_for, connected, say
from tests.e2e.patience import within
from tests.e2e.realtime import ENGINES, frames_of, question, server_with
from tests.fakes.answering import ANSWER

pytestmark = pytest.mark.e2e

WORDS = "".join(ANSWER)


async def test_a_spoken_question_is_answered(tiny_checkpoint: Path) -> None:  # contract: F2
    async with server_with("scripted", tiny_checkpoint) as server:
        async with connected(server) as connection:
            await connection.session.update(
                session={"type": "realtime", "instructions": "Be kind.", "voice": "marin"}
            )
            speaking = asyncio.create_task(say(connection, question(silence_s=2.0)))
            words, audio, status = await answer_of(connection)
            await speaking
        assert (words, status) == (WORDS, "completed")
        assert frames_of(audio) == int(frames_of(audio)) >= 2 * len(ANSWER)


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_response_asked_for_sounds(engine: str, tiny_checkpoint: Path) -> None:
    async with server_with(engine, tiny_checkpoint) as server:
        async with connected(server) as connection:
            await connection.response.create(response={"metadata": {"mine": "1"}})
            async with within("the first audio of a response"):
                async for event in connection:
                    if event.type == "response.created":
                        assert event.response.metadata["mine"] == "1"
                    if event.type == "response.output_audio.delta":
                        break
            assert len(base64.b64decode(event.delta)) == 3840
            await connection.response.cancel()
            _, _, status = await answer_of(connection, event.response_id)
            assert status == "cancelled"
        await asyncio.sleep(0)
    assert server.manager.used == 0


async def test_three_turns_of_a_script(tiny_checkpoint: Path) -> None:  # contract: F4 G2
    """Send a WAV at once, commit, ask, wait: no pacing, no trailing silence from the client."""
    async with server_with("scripted", tiny_checkpoint) as server:
        async with connected(server) as connection:
            for _ in range(3):
                await append(connection, question(seconds=1.0, silence_s=0.0))
                await connection.input_audio_buffer.commit()
                await connection.response.create()
                words, sound, status = await answer_of(connection)
                assert (words, status) == (WORDS, "completed")
                assert frames_of(sound) > len(ANSWER)


async def test_a_wrong_key_is_refused_at_the_upgrade(tiny_checkpoint: Path) -> None:
    options = HttpOptions(api_keys=("right",))
    async with server_with("scripted", tiny_checkpoint, options) as server:
        async with connected(server, "right"):
            pass
        with pytest.raises(Exception, match="401"):
            async with connected(server, "wrong"):
                pass
        async with client_for(server, "wrong") as client:
            with pytest.raises(APIStatusError):
                await client.models.list()
        async with client_for(server, "right") as client:
            assert [model.id async for model in await client.models.list()] == ["demo"]


async def test_a_call_over_webrtc(tiny_checkpoint: Path) -> None:
    async with server_with("scripted", tiny_checkpoint) as server, client_for(server) as client:
        browser = Browser()
        response = await client.realtime.calls.create(
            sdp=await browser.offer(), session={"type": "realtime", "instructions": "Be kind."}
        )
        location = response.response.headers["Location"]
        assert response.response.status_code == 201 and "/v1/realtime/calls/rtc_" in location
        await browser.take(response.text)
        created = await browser.until("session.created")
        assert created["session"]["instructions"] == "Be kind."
        browser.microphone.say(question(seconds=1.2, silence_s=0.4))
        await browser.until("response.created")
        done = await browser.until("response.done")
        item = done["response"]["output"][0]
        assert item["content"][0]["transcript"] == WORDS
        assert np.abs(browser.loudspeaker.sound()).max() > 0.03
        await client.realtime.calls.hangup(location.rsplit("/", 1)[1])
        await browser.until("session.closed")
        assert server.manager.used == 0
        await browser.close()


async def test_a_client_secret_opens_one_call(tiny_checkpoint: Path) -> None:
    options = HttpOptions(api_keys=("right",))
    async with server_with("scripted", tiny_checkpoint, options) as server:
        async with client_for(server, "right") as client:
            secret = await client.realtime.client_secrets.create(
                expires_after={"anchor": "created_at", "seconds": 60},
                session={"type": "realtime", "instructions": "Be brief."},
            )
        assert secret.value.startswith("ek_")
        browser = Browser()
        headers = {"Authorization": f"Bearer {secret.value}", "Content-Type": "application/sdp"}
        url = server.url + "/v1/realtime/calls?model=demo"
        async with server.http.post(url, data=await browser.offer(), headers=headers) as answer:
            assert answer.status == 201 and answer.content_type == "application/sdp"
            location = answer.headers["Location"]
            await browser.take(await answer.text())
        created = await browser.until("session.created")
        assert created["session"]["instructions"] == "Be brief."
        async with server.http.get(server.url + "/v1/models", headers=headers) as refused:
            assert refused.status == 401
        key = {"Authorization": "Bearer right"}
        async with server.http.delete(server.url + location, headers=key) as gone:
            assert gone.status == 204
        await browser.close()
        assert server.manager.used == 0
