"""Every client asks the bundled demo something; its answer is read, and made out by ear."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import pytest
from livekit.agents import AgentSession
from livekit.plugins import openai, personaplex
from livekit.plugins.nvidia.experimental import realtime as nvidia

from model import Engine
from tests.e2e.agent_session import talking
from tests.e2e.asking import (
    QUESTIONS,
    TIMES,
    Question,
    answer_to,
    heard_lines,
    spoken,
    squeeze,
)
from tests.e2e.demo_call import GREETING, asked, lines_in
from tests.e2e.duplex_client import CLIENTS, converse, make
from tests.e2e.openai_client import Browser, answer_of, append, client_for, connected
from tests.fakes.server import Server, serving, until_free

pytestmark = pytest.mark.e2e

MOUNTAIN, _, TOWELS = QUESTIONS


@pytest.fixture
async def server(demo_engine: Engine) -> AsyncIterator[Server]:
    """A server around the demo; every test has to leave it empty."""
    async with serving(demo_engine) as running:
        yield running
        await until_free(running)


async def test_openai_python_over_a_websocket(server: Server) -> None:  # contract: F2 F3
    async with connected(server) as connection:
        await append(connection, asked(MOUNTAIN))
        for line in (GREETING, MOUNTAIN.answer):
            words, sound, status = await answer_of(connection)
            assert (squeeze(words), status) == (line, "completed")
            assert lines_in(sound) == [line]


async def test_a_turn_based_script_gets_three_answers_in_a_row(
    server: Server,
) -> None:  # contract: F4 G2
    """It lets the agent greet, then sends each question at once and only waits."""
    async with connected(server) as connection:
        await connection.response.create()
        words, _, status = await answer_of(connection)
        assert (squeeze(words), status) == (GREETING, "completed")
        for question in QUESTIONS:
            await append(connection, spoken(question.words))
            await connection.input_audio_buffer.commit()
            await connection.response.create()
            words, sound, status = await answer_of(connection)
            assert (squeeze(words), status) == (question.answer, "completed")
            assert lines_in(sound) == [question.answer]


async def test_openai_python_over_webrtc(server: Server) -> None:
    async with client_for(server) as client:
        browser = Browser()
        call = await client.realtime.calls.create(
            sdp=await browser.offer(), session={"type": "realtime"}
        )
        await browser.take(call.text)
        assert transcript(await browser.until("response.done")) == GREETING

        async def put() -> str:
            browser.microphone.say(spoken(MOUNTAIN.words))
            return transcript(await browser.until("response.done"))

        heard: list[str] = []
        # A step that a busy machine takes too long for leaves a hole in what is heard.
        for _ in range(TIMES):
            assert await answer_to(put) == MOUNTAIN.answer
            heard = await asyncio.to_thread(heard_lines, browser.loudspeaker.sound())
            if MOUNTAIN.answer in heard:
                break
        assert MOUNTAIN.answer in heard
        await client.realtime.calls.hangup(call.response.headers["Location"].rsplit("/", 1)[1])
        await browser.until("session.closed")
        await browser.close()


def transcript(done: dict[str, Any]) -> str:
    return squeeze(done["response"]["output"][0]["content"][0]["transcript"])


@pytest.mark.parametrize("kind", CLIENTS)
async def test_a_duplex_client(kind: str, server: Server) -> None:  # contract: C6
    async with make(kind, server) as client:
        audio, words = await converse(client, asked(MOUNTAIN))
    assert squeeze(words) == f"{GREETING} {MOUNTAIN.answer}"
    assert lines_in(audio) == [GREETING, MOUNTAIN.answer]


STALL_MS = 5000
"""How long nothing may arrive before NVIDIA's plugin begins a new turn: busy machines are late."""

Make = Callable[[Server, aiohttp.ClientSession], Any]
MODELS: dict[str, tuple[Make, Question]] = {
    "openai": (
        lambda server, http: openai.realtime.RealtimeModel(
            base_url=server.url + "/v1", api_key="any"
        ),
        MOUNTAIN,
    ),
    "nvidia": (
        lambda server, http: nvidia.RealtimeModel(
            base_url=server.ws, http_session=http, silence_threshold_ms=STALL_MS
        ),
        TOWELS,
    ),
    "own": (
        lambda server, http: personaplex.DuplexModel(url=server.ws + "/v1/duplex"),
        TOWELS,
    ),
}


@pytest.mark.parametrize("kind", MODELS)
async def test_an_agent_session(kind: str, server: Server) -> None:
    made, question = MODELS[kind]
    persona = server.manager.default_spec.persona
    async with aiohttp.ClientSession() as http, talking(made(server, http), persona) as talk:
        await talk.until_said(GREETING)
        talk.microphone.say(spoken(question.words))
        await talk.until_said(question.answer)
        assert heard_lines(talk.loudspeaker.sound())[-2:] == [GREETING, question.answer]


async def test_turns_of_the_own_plugin_are_items_of_the_chat(server: Server) -> None:
    persona = server.manager.default_spec.persona
    async with talking(personaplex.DuplexModel(url=server.ws + "/v1/duplex"), persona) as talk:
        await talk.until_said(GREETING)
        for question in (MOUNTAIN, TOWELS):
            talk.microphone.say(spoken(question.words))
            await talk.until_said(question.answer)
        lines = [GREETING, MOUNTAIN.answer, TOWELS.answer]
        await talk.until("three items", lambda: len(said(talk.session)) >= len(lines))
        assert said(talk.session) == lines
        assert heard_lines(talk.loudspeaker.sound()) == lines


def said(session: AgentSession[None]) -> list[str]:
    """The agent's items in the chat, one for a turn."""
    items = [item for item in session.history.items if item.type == "message"]
    return [squeeze(item.text_content or "") for item in items if item.role == "assistant"]
