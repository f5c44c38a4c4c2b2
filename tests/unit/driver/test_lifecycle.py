"""The lifecycle's five requirements, each broken once."""

from __future__ import annotations

import json
import wave
from collections.abc import Callable

import pytest

from tests.fakes.realtime_server import CAPABILITIES, Event, Script, ScriptedServer
from tests.unit.driver.conftest import FRAMES, Run

pytestmark = pytest.mark.unit

Serve = Callable[[Script], ScriptedServer]


# contract: K9
def test_two_sessions_a_third_refused_one_replaced(scripted: Serve, drive: Run) -> None:
    server = scripted(Script())
    outcome = drive(server, "--api-key", "example-key-0000")
    assert outcome.code == 0, outcome.output
    result = outcome.result
    assert result["ok"] and result["errors"] == []
    assert result["overflow_error_code"] == "resource_exhausted"
    assert result["capabilities"] == CAPABILITIES
    assert result["primary"]["output_frames"] == FRAMES
    assert result["secondary"]["continuation_frames_after_recycle"] == FRAMES
    assert result["replacement"]["session_id"] not in (
        result["primary"]["session_id"],
        result["secondary"]["session_id"],
    )
    personas = [opening["session"]["instructions"] for opening in server.seen.opened]
    assert len(set(personas)) == 3
    assert sorted(server.seen.closed) == [0, 1, 3]


# contract: K9
def test_it_writes_events_and_a_wav_for_each_session(scripted: Serve, drive: Run) -> None:
    outcome = drive(scripted(Script()))
    for name, frames in (("primary", FRAMES), ("secondary", 2 * FRAMES), ("replacement", FRAMES)):
        lines = (outcome.folder / f"{name}-events.jsonl").read_text().splitlines()
        kinds = [json.loads(line)["event"]["type"] for line in lines]
        assert kinds[0] == "session.created" and kinds[-1] == "session.closed"
        assert all(len(line) < 1_000 for line in lines)
        with wave.open(str(outcome.folder / f"{name}-output.wav")) as sound:
            assert (sound.getframerate(), sound.getnframes()) == (24_000, frames * 1920)


def extra_capability(session: int) -> Event:
    return {**CAPABILITIES, "extra": session}


# contract: K9
@pytest.mark.parametrize(
    ("script", "error"),
    [
        (Script(health=503), "health: status 503"),
        (Script(capabilities=lambda s: {}), "capabilities: "),
        (Script(capabilities=extra_capability), "capabilities: differ between sessions"),
        (Script(session_id=lambda s: "duplex-same"), "session_ids: not distinct"),
        (Script(max_sessions=3), "overflow: a third session was admitted"),
        (Script(refuse_code="engine_error"), "overflow: refused with engine_error"),
        (Script(pcm16=lambda: bytes(3840)), "audio_rms: "),
        (Script(response_id=lambda s: "resp-same"), "response_identity: "),
        (Script(error_after=2), "stream: server_error"),
        (Script(acknowledge_close=False), "cleanup: TimeoutError"),
    ],
)
def test_a_server_that_breaks_one_requirement_fails(
    scripted: Serve, drive: Run, script: Script, error: str
) -> None:
    outcome = drive(scripted(script), "--cleanup-timeout-s", "0.5")
    assert outcome.code == 1
    assert outcome.result["ok"] is False
    assert outcome.result["errors"][0].startswith(error)


# contract: K9
def test_a_survivor_that_changes_its_response_fails(scripted: Serve, drive: Run) -> None:
    def renamed(event: Event, number: int, session: int) -> list[Event]:
        return [event | {"response_id": "resp-new"}] if number > FRAMES else [event]

    outcome = drive(scripted(Script(edit=renamed)))
    assert outcome.result["errors"] == ["response_identity: the survivor's response changed"]
