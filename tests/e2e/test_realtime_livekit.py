"""LiveKit's own plugins against the server, unmodified, inside an `AgentSession` without a room."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest
from livekit.agents import AgentSession
from livekit.plugins import openai
from livekit.plugins.nvidia.experimental import realtime as nvidia

from tests.e2e.agent_session import talking
from tests.e2e.realtime import ENGINES, question, server_with
from tests.fakes.answering import ANSWER
from tests.fakes.server import until_free

pytestmark = pytest.mark.e2e


def words_of(session: AgentSession[None]) -> str:
    said = [item for item in session.history.items if getattr(item, "role", "") == "assistant"]
    return " ".join(item.text_content or "" for item in said if item.type == "message")


async def test_the_openai_plugin_hears_an_answer(tiny_checkpoint: Path) -> None:  # contract: F2
    async with server_with("scripted", tiny_checkpoint) as server:
        model = openai.realtime.RealtimeModel(base_url=server.url + "/v1", api_key="any")
        async with talking(model) as talk:
            spoken = asyncio.Event()
            talk.session.on("conversation_item_added", lambda event: spoken.set())
            await asyncio.sleep(0.3)
            talk.microphone.say(question(seconds=1.2, silence_s=0.0))
            await asyncio.wait_for(spoken.wait(), 60)
            assert "".join(ANSWER).strip() in words_of(talk.session)
            assert talk.loudspeaker.samples >= 2 * len(ANSWER) * 1920
            assert len(server.manager.sessions) == 1
            assert server.manager.sessions[0].spec.persona.startswith("You are a wise")
        await until_free(server)


@pytest.mark.parametrize("engine", ENGINES)
async def test_the_openai_plugin_gets_a_reply_it_asks_for(
    engine: str, tiny_checkpoint: Path
) -> None:  # contract: F4
    async with server_with(engine, tiny_checkpoint) as server:
        model = openai.realtime.RealtimeModel(base_url=server.url + "/v1", api_key="any")
        async with talking(model) as talk:
            speech = talk.session.generate_reply(instructions="Greet the caller.")
            await asyncio.wait_for(talk.loudspeaker.heard.wait(), 60)
            await asyncio.wait_for(speech.interrupt(), 60)
        await until_free(server)


@pytest.mark.parametrize("engine", ENGINES)
async def test_the_nvidia_plugin_talks(engine: str, tiny_checkpoint: Path) -> None:
    async with server_with(engine, tiny_checkpoint) as server, aiohttp.ClientSession() as http:
        model = nvidia.RealtimeModel(base_url=server.ws, seed=7, http_session=http)
        async with talking(model) as talk:
            talk.microphone.say(question(seconds=1.2, silence_s=0.0))
            await talk.until("40 frames", lambda: talk.loudspeaker.samples >= 40 * 1920)
            totals = server.manager.totals()
            assert totals.stepped == totals.emitted > 0
        await until_free(server)
