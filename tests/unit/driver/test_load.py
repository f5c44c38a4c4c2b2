"""Load mode against a server that is right, and against ones that break exactly one rule."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import soundfile

from tests.fakes.realtime_server import Event, Script, ScriptedServer
from tests.unit.driver.conftest import FRAMES, Outcome, Run

pytestmark = pytest.mark.unit

Serve = Callable[[Script], ScriptedServer]


def nothing(event: Event, number: int, session: int) -> list[Event]:
    return []


def changed(**changes: Any) -> Callable[[Event, int, int], list[Event]]:
    """Every second delta of a session with some fields replaced."""

    def edit(event: Event, number: int, session: int) -> list[Event]:
        return [event | changes] if number % 2 == 0 else [event]

    return edit


def last_missing(missing: int) -> Callable[[Event, int, int], list[Event]]:
    return lambda event, number, session: [event] if number <= FRAMES - missing else []


def in_one_chunk(event: Event, number: int, session: int) -> list[Event]:
    if number < FRAMES:
        return []
    whole = base64.b64decode(event["delta"]) * FRAMES
    return [event | {"delta": base64.b64encode(whole).decode()}]


def odd_length(event: Event, number: int, session: int) -> list[Event]:
    if number > 1:
        return [event]
    return [event | {"delta": base64.b64encode(base64.b64decode(event["delta"])[:-2]).decode()}]


def silence() -> bytes:
    return bytes(3840)


def whisper() -> bytes:
    return np.full(1920, 3, dtype="<i2").tobytes()


def one(drive: Run, server: ScriptedServer, *flags: str) -> Outcome:
    return drive(server, "--sessions", "1", *flags)


# contract: K7
def test_a_right_server_passes(scripted: Serve, drive: Run) -> None:
    server = scripted(Script())
    outcome = drive(server, "--sessions", "2")
    assert outcome.code == 0, outcome.output
    assert outcome.report["ok"] and outcome.report["passed_sessions"] == 2
    for row in outcome.report["sessions"]:
        assert (row["input_frames"], row["output_frames"], row["frame_deficit"]) == (6, 6, 0)
        assert (row["voiced_frames"], row["silent_frames"]) == (6, 0)
        assert row["frame_coverage_ratio"] == 1.0
    assert server.seen.closed == [0, 1] or server.seen.closed == [1, 0]


# contract: K7
@pytest.mark.parametrize(
    ("script", "flags", "check"),
    [
        (Script(edit=nothing), (), "pcm16_output"),
        (Script(pcm16=silence), (), "audio_rms"),
        (Script(edit=odd_length), ("--max-frame-deficit", "9"), "whole_codec_frames"),
        (Script(edit=in_one_chunk), (), "audio_chunks"),
        (Script(edit=last_missing(1)), ("--max-frame-deficit", "0"), "frame_deficit"),
        (Script(edit=lambda e, n, s: [e, e]), (), "frame_deficit"),
        (Script(pcm16=whisper), (), "voiced_frames"),
        (Script(edit=lambda e, n, s: [e | {"metadata": {}}]), (), "scheduler_data_plane"),
        (Script(edit=changed(response_id="resp-other")), (), "response_identity"),
        (Script(edit=changed(sample_rate_hz=16_000)), (), "audio_packets"),
        (Script(edit=changed(delta="!")), (), "audio_packets"),
        (Script(edit=changed(response_id=None)), (), "audio_packets"),
    ],
)
def test_a_server_that_breaks_one_rule_fails_by_its_name(
    scripted: Serve, drive: Run, script: Script, flags: tuple[str, ...], check: str
) -> None:
    outcome = one(drive, scripted(script), *flags)
    assert outcome.code == 1
    assert outcome.session["acceptance_check"] == check
    assert outcome.session["error"].startswith(f"{check}: ")
    assert not outcome.report["ok"]
    assert ("hint: " in outcome.output) == (check == "voiced_frames")


# contract: K7
def test_a_failed_check_carries_its_numbers(scripted: Serve, drive: Run) -> None:
    server = scripted(Script(edit=last_missing(2)))
    outcome = one(drive, server, "--max-frame-deficit", "1")
    assert outcome.session["error"] == (
        "frame_deficit: input 6, output 4, deficit 2, allowed 0 to 1"
    )
    assert outcome.session["frame_coverage_ratio"] == pytest.approx(4 / 6)


# contract: K7
def test_any_error_event_fails_with_phase_and_kind_only(scripted: Serve, drive: Run) -> None:
    outcome = one(drive, scripted(Script(error_after=3)))
    assert outcome.code == 1
    assert outcome.session["error"] == "stream: server_error"
    assert outcome.session["acceptance_check"] is None
    assert outcome.session["server_error_count"] == 1
    assert outcome.session["server_error_codes"] == ["engine_error"]
    assert "secret" not in json.dumps(outcome.report) + outcome.output


# contract: K7
def test_shared_response_ids_fail_the_run(scripted: Serve, drive: Run) -> None:
    outcome = drive(scripted(Script(response_id=lambda s: "resp-same")), "--sessions", "2")
    assert outcome.code == 1
    assert outcome.report["shared_response_ids"] == ["resp-same"]
    assert outcome.report["passed_sessions"] == 2


# contract: K7
def test_a_listen_only_server_fails(scripted: Serve, drive: Run) -> None:
    def listen(event: Event, number: int, session: int) -> list[Event]:
        return [{"type": "response.listen", "session_id": "s", "epoch": 0}]

    outcome = one(drive, scripted(Script(edit=listen)))
    assert (outcome.code, outcome.session["acceptance_check"]) == (1, "pcm16_output")


# contract: K7
def test_rtf_is_diagnostic_until_it_is_made_a_gate(scripted: Serve, drive: Run) -> None:
    server = scripted(Script())
    assert drive(server, "--sessions", "1", folder="off").code == 0
    gated = drive(server, "--sessions", "1", "--max-client-rtf", "0.001", folder="on")
    assert (gated.code, gated.session["acceptance_check"]) == (1, "client_stream_rtf")
    assert gated.report["max_client_rtf"] == 0.001


# contract: K7
def test_continuity_is_never_a_gate(scripted: Serve, drive: Run) -> None:
    outcome = one(drive, scripted(Script(read_delay=lambda n: 0.4 if n == 2 else 0.0)))
    assert outcome.session["audio_continuity_ok"] is False
    assert outcome.session["audio_underrun_event_count"] >= 1
    assert outcome.code == 0


# contract: K1
def test_what_is_sent_and_both_event_names_give_the_same_totals(
    scripted: Serve, drive: Run
) -> None:
    totals = []
    for name in ("response.output_audio.delta", "response.audio.delta"):
        server = scripted(Script(event_name=name))
        outcome = drive(server, "--sessions", "1", folder=name)
        assert outcome.code == 0
        totals.append((outcome.session["output_samples"], outcome.session["audio_chunks"]))
    assert totals[0] == totals[1] == (FRAMES * 1920, FRAMES)
    assert server.seen.queries == [{"duplex": "1", "model": "demo", "autostart": "0"}]
    opening = server.seen.opened[0]["session"]
    assert opening["input_audio_format"] == "pcm_f32le"
    assert opening["extra_body"] == {"auto_response": True}
    assert opening["turn_detection"] is None
    append = server.seen.appends[0][1]
    assert {key: append[key] for key in append if key != "audio"} == {
        "type": "input_audio_buffer.append",
        "format": "pcm_f32le",
        "sample_rate_hz": 24_000,
        "duration_ms": 80,
        "audio_end_ms": 160,
        "is_speech": True,
    }
    assert len(base64.b64decode(append["audio"])) == 7_680


# contract: K2
def test_bad_packets_are_listed_with_index_time_and_code(scripted: Serve, drive: Run) -> None:
    outcome = one(drive, scripted(Script(edit=changed(delta="!"))))
    listed = outcome.session["invalid_audio_packets"]
    assert [bad["code"] for bad in listed] == ["invalid_audio_base64"] * 3
    assert [bad["event_index"] for bad in listed] == [2, 4, 6]
    assert all(math.isfinite(bad["received_at_s"]) for bad in listed)
    assert outcome.session["output_samples"] == 3 * 1920
    assert outcome.session["client_audio_packet_interval_ms"]["count"] == 2


# contract: K3
def test_an_existing_report_is_refused_before_any_connection(scripted: Serve, drive: Run) -> None:
    server = scripted(Script())
    assert drive(server, "--sessions", "1").code == 0
    again = drive(server, "--sessions", "1")
    assert again.code == 2
    assert "load-result.json exists" in again.output
    assert server.seen.connections == 1


# contract: K3
def test_all_are_admitted_before_any_sends_and_a_refused_one_stays_a_failed_row(
    scripted: Serve, drive: Run
) -> None:
    server = scripted(Script(max_sessions=2))
    outcome = drive(server, "--sessions", "3")
    rows = outcome.report["sessions"]
    assert (outcome.code, len(rows), outcome.report["requested_sessions"]) == (1, 3, 3)
    assert outcome.report["passed_sessions"] == 2
    assert [row["error"] for row in rows if not row["ok"]] == ["admission: resource_exhausted"]
    assert server.seen.admitted_before_first_append == 2
    starts = [row["input_timeline"][0]["planned_at_s"] for row in rows if row["ok"]]
    assert starts == [0.0, 0.0]


# contract: K3
def test_never_more_than_the_sessions_asked_for(scripted: Serve, drive: Run) -> None:
    server = scripted(Script(max_sessions=5))
    drive(server, "--sessions", "2")
    assert server.seen.connections == 2


# contract: K4
def test_load_frames_bound_the_input_and_the_wav_is_never_looped(
    scripted: Serve, drive: Run
) -> None:
    server = scripted(Script())
    fewer = drive(server, "--sessions", "1", "--load-frames", "3", folder="fewer")
    more = drive(server, "--sessions", "1", "--load-frames", "900", folder="more")
    assert [len(server.seen.appends[session]) for session in (0, 1)] == [3, FRAMES]
    said = f"the whole input, {FRAMES} frames"
    assert said in more.output and said not in fewer.output


# contract: K4
def test_a_pacing_warning_never_decides_the_exit_code(
    scripted: Serve, drive: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.driver.load.START_DELAY_S", -0.2)
    outcome = one(drive, scripted(Script()))
    assert outcome.session["client_pacing_warning"] is True
    assert outcome.report["client_pacing_warning_sessions"] == [0]
    assert outcome.code == 0


# contract: K5
def test_audio_that_comes_during_cleanup_is_not_counted(scripted: Serve, drive: Run) -> None:
    outcome = one(drive, scripted(Script(edit=last_missing(3), late_deltas=3)))
    assert outcome.report["drain_s"] == 0.3
    assert outcome.session["output_frames"] == FRAMES - 3


# contract: K5
def test_every_admitted_session_is_closed_also_after_failed_checks(
    scripted: Serve, drive: Run
) -> None:
    server = scripted(Script(pcm16=silence))
    assert drive(server, "--sessions", "2").code == 1
    assert sorted(server.seen.closed) == [0, 1]


# contract: K5
@pytest.mark.parametrize("script", [Script(acknowledge_close=False)])
def test_an_unanswered_close_fails_within_its_own_bound(
    scripted: Serve, drive: Run, script: Script
) -> None:
    outcome = one(drive, scripted(script), "--cleanup-timeout-s", "0.2", "--timeout-s", "600")
    assert (outcome.code, outcome.session["error"]) == (1, "cleanup: TimeoutError")
    assert outcome.session["output_frames"] == FRAMES


# contract: K5
def test_an_unanswered_handshake_does_not_hold_the_run(scripted: Serve, drive: Run) -> None:
    server = scripted(Script(finish_handshake=False))
    outcome = one(drive, server, "--cleanup-timeout-s", "0.2", "--timeout-s", "600")
    assert outcome.code == 0


# contract: K6
def test_without_output_latency_rtf_deficit_and_continuity_are_null(
    scripted: Serve, drive: Run
) -> None:
    row = one(drive, scripted(Script(edit=nothing))).session
    for name in (
        "client_first_audio_after_stream_start_ms",
        "client_stream_rtf",
        "server_stream_rtf",
        "frame_deficit",
        "frame_coverage_ratio",
        "audio_rms",
        "audio_underrun_s",
        "audio_underrun_event_count",
        "audio_continuity_ok",
        "playout_stall_ms",
    ):
        assert row[name] is None, name
    assert row["client_audio_packet_interval_ms"]["count"] == 0


def test_audio_before_the_first_input_frame_is_an_error(scripted: Serve, drive: Run) -> None:
    outcome = one(drive, scripted(Script(delta_before_input=True)))
    assert (outcome.code, outcome.session["error"]) == (1, "stream: audio_before_input")


# contract: K8
def test_timelines_labels_and_nothing_private(scripted: Serve, drive: Run) -> None:
    server = scripted(Script())
    outcome = drive(
        server,
        *("--sessions", "1", "--api-key", "example-key-0000"),
        *("--server-revision", "abc", "--server-hardware", "one card"),
    )
    report = outcome.report
    assert report["reported_server"] == {
        "revision": "abc",
        "hardware": "one card",
        "source": "operator-supplied",
    }
    row = report["sessions"][0]
    assert len(row["input_timeline"]) == len(row["audio_packet_timeline"]) == FRAMES
    assert server.seen.authorizations == ["Bearer example-key-0000"]
    append = server.seen.appends[0][0]["audio"]
    text = (outcome.folder / "load-result.json").read_text() + outcome.output
    for private in ("example-key-0000", "autostart", "duplex=1", append[:40], "secret"):
        assert private not in text


def test_the_only_model_is_the_default(scripted: Serve, drive: Run) -> None:
    server = scripted(Script(models=["one", "two"]))
    outcome = one(drive, server)
    assert outcome.code == 1
    assert "2 models served, name one with --model" in outcome.output


# contract: K0
@pytest.mark.parametrize(
    ("voices", "asked"),
    [
        (None, "NATF2.pt"),
        (["NATM1.pt", "NATF2.pt"], "NATF2.pt"),
        (["OWN.pt", "OTHER.pt"], "OWN.pt"),
    ],
)
def test_the_usual_voice_is_asked_for_where_the_server_has_it(
    scripted: Serve, drive: Run, voices: list[str] | None, asked: str
) -> None:
    server = scripted(Script(voices=voices))
    assert one(drive, server).code == 0
    assert server.seen.opened[0]["session"]["voice"] == asked


def test_a_server_that_does_not_answer_is_named_with_its_status(
    scripted: Serve, drive: Run
) -> None:
    server = scripted(Script(models=None))
    outcome = one(drive, server)
    assert outcome.code == 1
    assert f"127.0.0.1:{server.port} answered with HTTP 401" in outcome.output


def test_samples_that_are_no_numbers_are_refused(scripted: Serve, drive: Run, wav: Any) -> None:
    samples = np.full(FRAMES * 1920, np.nan, np.float32)
    soundfile.write(wav, samples, 24_000, subtype="FLOAT")
    server = scripted(Script())
    outcome = one(drive, server)
    assert (outcome.code, server.seen.connections) == (2, 0)
    assert "no numbers" in outcome.output


def test_a_file_that_is_no_wav_gives_one_line(scripted: Serve, drive: Run, wav: Any) -> None:
    wav.write_bytes(b"no audio")
    outcome = one(drive, scripted(Script()))
    assert outcome.code == 2
    assert outcome.output.count("\n") == 1 and "no audio file" in outcome.output


def test_input_at_another_rate_and_in_stereo_is_resampled(
    scripted: Serve, drive: Run, wav: Any
) -> None:
    soundfile.write(wav, np.full((FRAMES * 640, 2), 0.1), 8_000)
    server = scripted(Script())
    assert one(drive, server).code == 0
    assert len(server.seen.appends[0]) == FRAMES


def test_an_unexpected_digest_is_refused(scripted: Serve, drive: Run) -> None:
    server = scripted(Script())
    outcome = one(drive, server, "--expected-input-sha256", "0" * 64)
    assert (outcome.code, server.seen.connections) == (2, 0)
