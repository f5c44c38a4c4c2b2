"""The plugin as its users have it: a file named `agent.py`, `AgentSession`, a server elsewhere."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import numpy as np
import pytest
from livekit import api

from model import FRAME_SAMPLES
from model.demo.texts import TEXTS, load_texts
from tests.e2e.asking import QUESTIONS, Question, answer_to, made_out, spoken, squeeze
from tests.e2e.caller import RATE, Caller, Segment, Sound
from tests.e2e.conftest import WorkerFactory
from tests.e2e.processes import API_KEY, API_SECRET, ROOT, LiveKitServer, Process, WorkerProcess
from tests.e2e.sounds import at_microphone, last_recording

pytestmark = pytest.mark.e2e

EXAMPLE = ROOT / "agent" / "plugin" / "examples" / "agent.py"
NAME = "bakery"
"""Of the example's agent."""
TEACHER = load_texts(TEXTS).personas[0]
QUIET_RMS = 0.01
"""Of somebody far from the microphone; a gain control takes it for ten times too low."""
ASKS_FOR_A_REPLY = """        record=False,
    )
    await session.generate_reply(instructions="Greet the caller.")
"""


class UserAgent(Process):
    """Somebody's own agent, started in their own folder; rooms are sent to it by its name."""

    def __init__(
        self, name: str, folder: Path, livekit: LiveKitServer, server: WorkerProcess
    ) -> None:
        super().__init__(
            name,
            [sys.executable, str(folder / "agent.py"), "dev", "--no-reload"],
            folder,
            LIVEKIT_URL=livekit.url,
            LIVEKIT_API_KEY=API_KEY,
            LIVEKIT_API_SECRET=API_SECRET,
            PERSONAPLEX_URL=f"ws://127.0.0.1:{server.port}/v1/duplex",
        )

    def wait_ready(self) -> None:
        self.await_true("registration", lambda: "registered worker" in self.text())


@pytest.fixture(scope="module")
def example_agent(
    tmp_path_factory: pytest.TempPathFactory, livekit: LiveKitServer, echo_process: WorkerProcess
) -> Iterator[UserAgent]:
    """The example as it stands."""
    folder = tmp_path_factory.mktemp("example")
    with user_agent(NAME, EXAMPLE.read_text(), folder, livekit, echo_process) as agent:
        yield agent


@contextmanager
def user_agent(
    name: str, source: str, folder: Path, livekit: LiveKitServer, server: WorkerProcess
) -> Iterator[UserAgent]:
    assert NAME in source
    (folder / "agent.py").write_text(source.replace(f'"{NAME}"', f'"{name}"'))
    agent = UserAgent(name, folder, livekit, server)
    try:
        agent.start()
        yield agent
    finally:
        agent.stop()


@asynccontextmanager
async def call_in(
    livekit: LiveKitServer, agent: UserAgent, room_name: str
) -> AsyncIterator[Caller]:
    """Somebody in a room that the user's agent is sent to."""
    async with Caller(livekit.url, room_name, dispatch=None) as caller:
        url = livekit.url.replace("ws", "http")
        async with api.LiveKitAPI(url, API_KEY, API_SECRET) as server:
            request = api.CreateAgentDispatchRequest(agent_name=agent.name, room=caller.room_name)
            await server.agent_dispatch.create_dispatch(request)
        yield caller


def burst() -> Sound:
    """A second and a half of tone."""
    return np.float32(0.2) * np.sin(2 * np.pi * 300 * np.arange(RATE * 3 // 2) / RATE)


def silence(seconds: float) -> Sound:
    return np.zeros(round(RATE * seconds), np.float32)


def turns(caller: Caller) -> list[Segment]:
    """What the agent said, turn by turn; a stall may have cut off a piece without words."""
    return [segment for segment in caller.segments if segment.text.strip()]


async def test_turns_are_separate_and_the_slot_comes_back(
    example_agent: UserAgent, livekit: LiveKitServer, echo_worker: WorkerProcess, room_name: str
) -> None:
    async with call_in(livekit, example_agent, room_name) as caller:
        await caller.until_agent()
        await caller.until("a slot in use", lambda: echo_worker.ready()["free_slots"] == 1)
        for _ in range(2):
            await caller.say(np.concatenate((silence(0.5), burst(), silence(2.5))))
        await caller.until("two turns", lambda: len(turns(caller)) >= 2)
        assert len({segment.id for segment in turns(caller)}) == len(turns(caller))
        assert np.abs(caller.sound()).max() > 0.05
    await echo_worker.reach_idle()


async def test_a_quiet_voice_is_heard_as_it_is(
    example_agent: UserAgent, livekit: LiveKitServer, echo_worker: WorkerProcess, room_name: str
) -> None:
    """The framework would turn it up; the model was trained on natural levels."""
    voice = np.concatenate([spoken(question.words) for question in QUESTIONS])
    quiet = voice * (QUIET_RMS / loudness(voice))
    async with call_in(livekit, example_agent, room_name) as caller:
        await caller.publish()
        await caller.until("a slot in use", lambda: echo_worker.ready()["free_slots"] == 1)
        await caller.say(np.concatenate((silence(1), at_microphone(quiet), silence(1))))
    await echo_worker.reach_idle()
    assert loudness(last_recording(echo_worker.folder)["pcm"]) == pytest.approx(QUIET_RMS, rel=0.2)


def loudness(sound: Sound) -> float:
    """RMS of a usual frame of speech at 24 kHz, whatever silence there is around."""
    frames = sound[: len(sound) // FRAME_SAMPLES * FRAME_SAMPLES].reshape(-1, FRAME_SAMPLES)
    levels = np.sqrt(np.mean(np.square(frames), axis=1))
    return float(np.median(levels[levels > levels.max() / 10]))


async def test_each_turn_is_an_item_that_says_what_was_said(
    livekit: LiveKitServer, start_worker: WorkerFactory, tmp_path: Path, room_name: str
) -> None:
    worker = await start_worker("--model", "demo", "--max-sessions", "1", echo=False)
    source = EXAMPLE.read_text().replace(
        "agent=Agent(instructions=PERSONA)", f"agent=Agent(instructions={TEACHER.prompt!r})"
    )
    assert TEACHER.prompt in source
    with user_agent("teacher", source, tmp_path, livekit, worker) as agent:
        async with call_in(livekit, agent, room_name) as caller:
            await caller.publish()
            await caller.until("a greeting", lambda: turns(caller))
            asked = (QUESTIONS[0], QUESTIONS[-1])
            answers = [await answer_in_turn(caller, question) for question in asked]
            assert answers == [question.answer for question in asked]
            read = [squeeze(turn.text) for turn in turns(caller)]
            print("read:", read)
            assert made_out(read) == [TEACHER.greeting, *answers]
            assert len({turn.id for turn in turns(caller)}) == len(read)
        await worker.reach_idle()


async def answer_in_turn(caller: Caller, question: Question) -> str:
    """What the turn says that follows the question."""

    async def put() -> str:
        before = len(turns(caller))
        await caller.say(at_microphone(spoken(question.words)))
        await caller.until("an answer", lambda: len(turns(caller)) > before)
        return turns(caller)[-1].text

    return await answer_to(put)


async def test_generate_reply_is_refused_in_words(
    livekit: LiveKitServer, echo_worker: WorkerProcess, tmp_path: Path, room_name: str
) -> None:
    source = EXAMPLE.read_text().replace("        record=False,\n    )\n", ASKS_FOR_A_REPLY)
    with user_agent("prompted", source, tmp_path, livekit, echo_worker) as agent:
        async with call_in(livekit, agent, room_name) as caller:
            refusal = "generate_reply is not supported"
            await caller.until("a refusal", lambda: refusal in agent.text())
