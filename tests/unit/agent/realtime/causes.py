"""What causes error codes on a socket: in a session that is open, and as its first message."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from typing import Any

from tests.fakes.server import Client, Server, silence

PCM = base64.b64encode(bytes(3840)).decode()

Cause = Callable[[Client, Server], Awaitable[None]]


def sends(type_: str, **fields: Any) -> Cause:
    async def cause(client: Client, server: Server) -> None:
        await client.send(type_, event_id="evt_x", **fields)

    return cause


def appends(**fields: Any) -> Cause:
    return sends("input_audio_buffer.append", **fields)


def updates(**session: Any) -> Cause:
    return sends("session.update", session=session)


async def backpressure(client: Client, server: Server) -> None:
    server.manager.engine.step_s = None  # type: ignore[attr-defined]
    await client.append(silence(26), event_id="evt_x")


async def twice(client: Client, server: Server) -> None:
    await client.send("input_audio_buffer.commit", event_id="evt_x")
    await client.send("input_audio_buffer.commit", event_id="evt_x")


async def after_audio(client: Client, **session: Any) -> None:
    await client.append(silence())
    await client.until("response.output_audio.delta")
    await client.send("session.update", event_id="evt_x", session=session)


async def changed_voice(client: Client, server: Server) -> None:
    await after_audio(client, voice="NATM1.pt")


async def changed_persona(client: Client, server: Server) -> None:
    await after_audio(client, instructions="You are a pirate.")


async def changed_model(client: Client, server: Server) -> None:
    for model in ("m", "another"):
        await client.send("session.update", event_id="evt_x", session={"model": model})


async def create_twice(client: Client, server: Server) -> None:
    await client.append(silence())
    await client.until("response.output_audio.delta")
    await client.send("response.create", event_id="evt_x")


async def item_twice(client: Client, server: Server) -> None:
    item = {"id": "item_mine", "type": "message", "role": "user", "content": []}
    for _ in range(2):
        await client.send("conversation.item.create", event_id="evt_x", item=item)


async def mismatch(client: Client, server: Server) -> None:
    await client.append(silence())
    delta = await client.until("response.output_audio.delta")
    await client.send(
        "playback.ack",
        event_id="evt_x",
        played_ms=1,
        response_id=delta["response_id"],
        item_id="item_other",
    )


GOES_ON: dict[str, Cause] = {
    "bad_event": sends("response.cancel", response_id=7),
    "unknown_event": sends("session.fly"),
    "invalid_event_ack": sends("session.event_ack", server_event_seq=10**9),
    "invalid_session_config": updates(extra_body={"cancel_mode": "gentle"}),
    "invalid_voice": updates(voice="../../etc/passwd.pt"),
    "invalid_duplex_runtime_config": updates(extra_body={"personaplex_persona": "x"}),
    "sampling_not_allowed": updates(extra_body={"seed": 1}),
    "voice_update_unsupported": changed_voice,
    "persona_update_unsupported": changed_persona,
    "model_update_unsupported": changed_model,
    "unsupported_audio_format": appends(audio=PCM, format="opus"),
    "bad_audio": appends(audio="***"),
    "input_backpressure": backpressure,
    "input_audio_buffer_empty": twice,
    "response_already_active": create_twice,
    "response_not_active": sends("response.cancel"),
    "item_not_found": sends("conversation.item.retrieve", item_id="item_none"),
    "item_create_duplicate_item_id": item_twice,
    "playback_item_mismatch": mismatch,
    "playback_item_not_found": sends("playback.ack", played_ms=1),
    "native_text_append_unsupported": sends("input.text.append", text="hello"),
    "barge_in_unsupported": sends("barge_in"),
    "unsupported_session_resume": sends("session.resume", session_id="s", resume_token="t"),
    "prompt_too_long": updates(instructions="x" * 100_001),
}


def opens(**session: Any) -> dict[str, Any]:
    return {"type": "session.update", "session": session}


AT_OPEN: dict[str, dict[str, Any]] = {
    "bad_event": {"type": "session.update", "session": 7},
    "unknown_event": {"type": "session.fly"},
    "unsupported_session_resume": {"type": "session.resume", "resume_token": "t"},
    "invalid_session_config": opens(instructions=7),
    "invalid_voice": opens(voice="nobody.pt"),
    "prompt_too_long": opens(instructions="x" * 2000),
    "invalid_duplex_runtime_config": opens(extra_body={"personaplex_model_path": "/x"}),
    "sampling_not_allowed": opens(extra_body={"temperature_text": 0.5}),
    "unsupported_audio_format": opens(output_audio_format="pcm_f32le"),
}
