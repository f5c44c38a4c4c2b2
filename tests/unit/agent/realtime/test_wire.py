"""The wire of both moods over a real socket: order and shape of events, opening, cancel, moods."""

from __future__ import annotations

import base64
import re

import numpy as np
import pytest

from agent.http import HttpOptions
from model import FRAME_SAMPLES, Sampling
from tests.fakes.answering import Answering
from tests.fakes.engine import FakeEngine, quiet
from tests.fakes.server import Client, serving, silence

pytestmark = pytest.mark.unit

DUPLEX = "/v1/realtime?duplex=1&model=m&autostart=0"
STOCK = "/v1/realtime?model=m"

OPENING = [
    "response.created",
    "conversation.item.added",
    "conversation.item.created",
    "response.output_item.added",
    "response.content_part.added",
    "response.speak",
]
FRAME = ["response.output_audio.delta", "response.output_audio_transcript.delta"]
TERMINAL = [
    "response.output_audio.done",
    "response.output_audio_transcript.done",
    "response.content_part.done",
    "response.output_item.done",
    "conversation.item.done",
    "response.done",
    "rate_limits.updated",
]


def loud(frames: int, amplitude: float = 0.2) -> np.ndarray:
    return np.full(frames * FRAME_SAMPLES, amplitude, np.float32)


async def opened(client: Client, **session: object) -> dict[str, object]:
    await client.send("session.update", session=session)
    return (await client.until("session.updated"))["session"]


async def closed(client: Client) -> None:
    await client.send("session.close")
    await client.rest()


async def test_a_call_from_start_to_end() -> None:  # contract: C6 D1 D2 D3
    async with serving(FakeEngine()) as server, server.connect(DUPLEX) as client:
        session = await opened(client, voice="NATF2.pt", instructions="Hi.")
        assert re.fullmatch(r"duplex-[0-9a-f]{32}", str(session["id"]))
        await client.append(silence(3))
        for _ in range(3):
            delta = await client.until("response.output_audio.delta")
            assert len(base64.b64decode(delta["delta"], validate=True)) == 3840
            assert (delta["format"], delta["sample_rate_hz"]) == ("pcm16", 24000)
        await closed(client)
        expected = ["session.created", "session.updated", *OPENING, *FRAME * 3, *TERMINAL]
        assert client.types == [*expected, "session.closed"]
        assert client.socket.close_code == 1000
        done = client.all("response.done")[0]["response"]
        assert done["status"] == "cancelled"
        assert done["status_details"] == {"type": "cancelled", "reason": "session_closed"}
        assert done["output"][0]["content"][0]["audio_duration_ms"] == 240
        assert re.fullmatch(rf"resp-{session['id']}-0-[0-9a-f]{{8}}", done["id"])


async def test_every_event_is_numbered_and_stamped() -> None:  # contract: D5
    async with serving(FakeEngine()) as server, server.connect(DUPLEX) as client:
        await opened(client)
        await client.append(silence(2))
        await client.until("response.output_audio.delta")
        await client.send("session.event_ack", server_event_seq=1)
        await closed(client)
        assert "server_event_seq" not in client.seen[0]
        numbers = [event["server_event_seq"] for event in client.seen[1:]]
        assert numbers == list(range(1, len(numbers) + 1))
        ids = [event["event_id"] for event in client.seen]
        assert len(set(ids)) == len(ids)
        assert not client.all("error")


async def test_metadata_is_what_drivers_check() -> None:  # contract: D4
    async with serving(FakeEngine()) as server, server.connect(DUPLEX) as client:
        await opened(client)
        await client.append(silence(2))
        await client.until("response.output_audio.delta")
        metadata = (await client.until("response.output_audio.delta"))["metadata"]
        assert metadata["vllm_omni"] == {
            "runtime_impl": "scheduler_data_plane",
            "uses_model_runner_scheduler": True,
            "runner_kv_backed": True,
            "owned_runtime": False,
        }
        assert metadata["audio_duration_ms"] == 160


async def test_a_voice_named_at_the_opening_is_bound_at_once() -> None:  # contract: B2 B6
    engine = FakeEngine()
    async with serving(engine) as server, server.connect(DUPLEX) as client:
        session = await opened(client, voice="NATM1.pt", instructions="A pirate.")
        assert session["prefill_positions"] == 59
        await client.send("session.update", session={"voice": "NATF2.pt"})
        assert (await client.until("error"))["error"]["code"] == "voice_update_unsupported"
        await client.append(silence())
        await client.until("response.output_audio.delta")


@pytest.mark.parametrize("path", ["/v1/realtime?duplex=1&model=m", STOCK])
async def test_an_autostarted_session_binds_at_its_first_frame(path: str) -> None:  # contract: B2
    engine = FakeEngine(script=Answering())
    async with serving(engine) as server, server.connect(path) as client:
        await client.until("session.updated")
        for persona in ("A pirate.", "A nun."):
            await client.send("session.update", session={"instructions": persona})
            session = (await client.until("session.updated"))["session"]
            assert session["instructions"] == persona
        await client.append(silence())
        await client.send("session.update", session={"instructions": "A pirate."})
        assert (await client.until("error"))["error"]["code"] == "persona_update_unsupported"
        assert [spec.persona for spec in engine.prepared][-2:] == ["A pirate.", "A nun."]
        assert server.manager.sessions[0].spec.persona == "A nun."


async def test_the_empty_persona_is_the_default_one() -> None:  # contract: B1
    async with serving(FakeEngine()) as server, server.connect(DUPLEX) as client:
        session = await opened(client, voice="NATF2.pt", instructions="")
        assert session["instructions"] == "You are a wise and friendly teacher."


async def test_sampling_where_it_is_allowed() -> None:  # contract: B5
    async with serving(FakeEngine(), HttpOptions(allow_sampling=True)) as server:
        async with server.connect(DUPLEX) as client:
            await opened(client, extra_body={"seed": 7, "top_k_text": 5, "temperature_audio": 0.3})
            wanted = Sampling(seed=7, top_k_text=5, temperature_audio=0.3)
            assert server.manager.sessions[0].spec.sampling == wanted
            await client.send("session.update", session={"extra_body": {"seed": -1}})
            assert (await client.until("error"))["error"]["code"] == "invalid_session_config"


async def test_hard_cancel_on_the_wire() -> None:  # contract: E1
    async with serving(FakeEngine()) as server, server.connect(DUPLEX) as client:
        await opened(client)
        await client.append(silence(2))
        first = await client.until("response.output_audio.delta")
        await client.send("response.cancel", response_id=first["response_id"])
        done = await client.until("response.done")
        assert done["response"]["status_details"]["reason"] == "client_cancelled"
        await client.append(silence(2))
        second = await client.until("response.output_audio.delta")
        assert second["metadata"]["epoch"] == 1
        assert second["response_id"] != first["response_id"]
        assert second["metadata"]["audio_duration_ms"] == 80


@pytest.mark.parametrize(("path", "epoch"), [(DUPLEX, 1), (STOCK, 0)])
async def test_output_clear_says_cleared_first(path: str, epoch: int) -> None:  # contract: E1
    async with serving(FakeEngine()) as server, server.connect(path) as client:
        await opened(client)
        await client.append(silence(2))
        await client.until("response.output_audio.delta")
        await client.send("output_audio_buffer.clear")
        await client.until("rate_limits.updated")
        start = client.types.index("output_audio_buffer.cleared")
        after = [name for name in client.types[start + 1 :] if name not in FRAME]
        assert after == TERMINAL
        reason = client.all("response.done")[0]["response"]["status_details"]["reason"]
        assert reason == "output_audio_buffer_clear"
        assert server.manager.sessions[0].epoch == epoch
        await client.send("output_audio_buffer.clear")
        assert (await client.until("output_audio_buffer.cleared"))["response_id"] is None


async def test_cancel_mode_is_the_clients_choice() -> None:  # contract: E3
    async with serving(FakeEngine()) as server, server.connect(DUPLEX) as client:
        session = await opened(client, extra_body={"cancel_mode": "soft"})
        assert session["cancel_mode"] == "soft"
        await client.append(silence())
        await client.until("response.output_audio.delta")
        await client.send("response.cancel")
        await client.until("response.done")
        held = server.manager.sessions[0]
        assert held.holding and held.epoch == 0


async def test_playback_is_monotone() -> None:  # contract: E5
    async with serving(FakeEngine()) as server, server.connect(DUPLEX) as client:
        await opened(client)
        await client.append(silence(5))
        for _ in range(5):
            delta = await client.until("response.output_audio.delta")
        played = []
        for milliseconds in (200, 120, 10_000):
            await client.send("playback.ack", played_ms=milliseconds)
            played.append((await client.until("playback.acknowledged"))["event"]["played_ms"])
        assert played == [200, 200, 400]
        item = f"item_{delta['response_id']}"
        await client.send("playback.ack", played_ms=1, item_id=item, truncate=True)
        event = (await client.until("playback.acknowledged"))["event"]
        assert (event["item_id"], event["truncate"]) == (item, True)
        assert event["playback"]["sent_ms"] == 400


@pytest.mark.parametrize(
    ("path", "mood"),
    [
        ("/v1/duplex?model=m", "duplex"),
        ("/v1/realtime?model=m&duplex=1", "duplex"),
        ("/v1/realtime?model=m&duplex=true", "duplex"),
        ("/v1/realtime?model=m&duplex=0", "stock"),
        ("/v1/realtime?model=m", "stock"),
    ],
)
async def test_the_path_decides_the_mood(path: str, mood: str) -> None:  # contract: F1
    async with serving(FakeEngine()) as server, server.connect(path) as client:
        session = (await client.until("session.updated"))["session"]
        assert session["capabilities"]["mood"] == mood


async def test_session_create_opens_on_v1_duplex_alone() -> None:  # contract: F1
    async with serving(FakeEngine()) as server:
        async with server.connect("/v1/duplex") as client:
            await client.send("session.create", session={"voice": "NATM1.pt"})
            session = (await client.until("session.updated"))["session"]
            assert session["voice"] == "NATM1.pt"
        async with server.connect(DUPLEX) as client:
            await client.send("session.create", session={})
            await client.rest()
            assert client.seen[0]["error"]["code"] == "unknown_event"


async def test_any_first_message_opens() -> None:
    async with serving(FakeEngine()) as server, server.connect(DUPLEX) as client:
        await client.append(silence())
        await client.until("response.output_audio.delta")
        assert client.types[:2] == ["session.created", "session.updated"]


async def test_what_stock_clients_send_is_accepted() -> None:  # contract: F2
    session = {
        "type": "realtime",
        "model": "gpt-realtime",
        "output_modalities": ["audio"],
        "audio": {
            "input": {
                "format": {"type": "audio/pcm", "rate": 24000},
                "noise_reduction": {"type": "near_field"},
                "transcription": {"model": "gpt-4o-mini-transcribe"},
                "turn_detection": {"type": "semantic_vad", "eagerness": "medium"},
            },
            "output": {"format": {"type": "audio/pcm"}, "speed": 1.0, "voice": "marin"},
        },
        "max_output_tokens": "inf",
        "tool_choice": "auto",
        "tools": [{"type": "function", "name": "look_up"}],
        "tracing": None,
    }
    async with serving(FakeEngine()) as server, server.connect(STOCK) as client:
        await client.until("session.updated")
        await client.send("session.update", session=session)
        echoed = (await client.until("session.updated"))["session"]
        assert echoed["audio"] == session["audio"] and echoed["tools"] == session["tools"]
        assert echoed["voice"] == "NATF2.pt"
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}]}
        await client.send("conversation.item.create", item=item, previous_item_id="root")
        await client.until("conversation.item.done")
        await client.append(loud(20))
        await client.send("session.heartbeat")
        await client.until("session.heartbeat_ack")
        assert not client.all("error")
        assert not client.all("input_audio_buffer.speech_started")


async def test_server_vad_labels_and_cuts_nothing() -> None:  # contract: F2
    async with serving(FakeEngine(script=quiet)) as server, server.connect(STOCK) as client:
        await client.until("session.updated")
        vad = {"type": "server_vad", "silence_duration_ms": 400}
        await client.send("session.update", session={"turn_detection": vad})
        await client.append(np.concatenate([silence(5), loud(10), silence(10)]))
        started = await client.until("input_audio_buffer.speech_started")
        stopped = await client.until("input_audio_buffer.speech_stopped")
        assert (started["audio_start_ms"], stopped["audio_end_ms"]) == (400, 1200)
        assert started["item_id"] == stopped["item_id"]
        assert not client.all("input_audio_buffer.committed")


@pytest.mark.parametrize("path", [DUPLEX, STOCK])
async def test_commit_is_acknowledged(path: str) -> None:  # contract: F5
    async with serving(FakeEngine(script=quiet)) as server, server.connect(path) as client:
        await opened(client)
        await client.append(silence(2))
        await client.send("input_audio_buffer.commit")
        committed = await client.until("input_audio_buffer.committed")
        done = await client.until("conversation.item.done")
        assert done["item"]["id"] == committed["item_id"] and done["item"]["role"] == "user"
        await client.send("input_audio_buffer.commit")
        assert (await client.until("error"))["error"]["code"] == "input_audio_buffer_empty"


async def test_stock_sends_only_frames_of_a_response() -> None:  # contract: D1 F3
    async with serving(FakeEngine(script=Answering())) as server:
        async with server.connect(STOCK) as client:
            await client.until("session.updated")
            await client.append(np.concatenate([loud(10), silence(40)]))
            done = await client.until("response.done")
            await client.until("rate_limits.updated")
            deltas = client.all("response.output_audio.delta")
            # The onset, ten frames of answer, ten quiet ones.
            assert len(deltas) == 1 + 10 + 10
            assert done["response"]["status"] == "completed"
            assert "duplex_event" not in done["response"]["metadata"]


async def test_audio_items_are_heard(tmp_path: object) -> None:
    async with serving(FakeEngine(script=Answering())) as server:
        async with server.connect(STOCK) as client:
            await client.until("session.updated")
            sound = np.concatenate([loud(10), silence(20)])
            data = base64.b64encode((sound * 32767).astype("<i2").tobytes()).decode()
            content = [{"type": "input_audio", "audio": data}]
            item = {"type": "message", "role": "user", "content": content, "id": "item_mine"}
            await client.send("conversation.item.create", item=item)
            added = await client.until("conversation.item.added")
            assert added["item"]["id"] == "item_mine"
            assert "audio" not in added["item"]["content"][0]
            await client.until("response.done")


async def test_items_can_be_asked_for_and_removed() -> None:
    async with serving(FakeEngine()) as server, server.connect(STOCK) as client:
        await client.until("session.updated")
        item = {"id": "a", "type": "message", "role": "user", "content": []}
        await client.send("conversation.item.create", item=item)
        await client.send("conversation.item.retrieve", item_id="a")
        assert (await client.until("conversation.item.retrieved"))["item"]["id"] == "a"
        await client.send("conversation.item.delete", item_id="a")
        await client.until("conversation.item.deleted")
        await client.send("conversation.item.delete", item_id="a")
        assert (await client.until("error"))["error"]["code"] == "item_not_found"
        await client.append(silence(2))
        delta = await client.until("response.output_audio.delta")
        await client.send(
            "conversation.item.truncate",
            item_id=f"item_{delta['response_id']}",
            content_index=0,
            audio_end_ms=10_000,
        )
        assert (await client.until("conversation.item.truncated"))["audio_end_ms"] <= 160


@pytest.mark.parametrize(
    ("output", "size"),
    [
        ({"format": {"type": "audio/pcm", "rate": 8000}}, 1280),
        ({"format": {"type": "audio/pcm", "rate": 16000}}, 2560),
        ({"format": {"type": "audio/pcm", "rate": 48000}}, 7680),
        ({"format": {"type": "audio/pcmu"}}, 640),
        ({"format": "g711_alaw", "sample_rate_hz": 16000}, 1280),
    ],
)
async def test_output_formats(output: dict[str, object], size: int) -> None:  # contract: C6, D1
    async with serving(FakeEngine()) as server, server.connect(DUPLEX) as client:
        await opened(client, audio={"output": output})
        await client.append(silence(10))
        for _ in range(10):
            await client.until("response.output_audio.delta")
        await closed(client)
        deltas = client.all("response.output_audio.delta")
        assert [len(base64.b64decode(delta["delta"])) for delta in deltas] == [size] * 10
        assert len(deltas) == len(client.all("response.output_audio_transcript.delta"))
