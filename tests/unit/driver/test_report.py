"""The report validates against its schema, is written once, and the picture holds its numbers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from agent.driver.plot import draw
from agent.driver.report import LoadResult, write_json
from agent.driver.schema import schema_text
from tests.fakes.realtime_server import Script, ScriptedServer
from tests.unit.driver.conftest import FRAMES, Run

pytestmark = pytest.mark.unit

SCHEMA = Path("docs/load-result.schema.json")


def test_the_stored_schema_is_current() -> None:
    assert SCHEMA.read_text() == schema_text()


def test_a_run_validates_and_the_figure_holds_its_numbers(
    scripted: Callable[[Script], ScriptedServer], drive: Run
) -> None:
    outcome = drive(scripted(Script(max_sessions=1)), "--sessions", "2", "--plot")
    jsonschema.validate(outcome.report, json.loads(SCHEMA.read_text()))
    assert (outcome.folder / "load-result.png").stat().st_size > 10_000

    figure = draw(LoadResult.model_validate(outcome.report))
    row = outcome.report["sessions"][0]
    arrivals, lateness, underruns = figure.axes
    last = row["audio_packet_timeline"][-1]["received_at_s"]
    assert arrivals.lines[0].get_xdata()[-1] == pytest.approx(last)
    assert arrivals.lines[0].get_ydata()[-1] == pytest.approx(row["output_samples"] / 24_000)
    assert max(lateness.lines[0].get_ydata()) == pytest.approx(
        row["client_send_lateness_ms"]["max"]
    )
    assert len(underruns.lines[0].get_ydata()) == FRAMES
    assert max(underruns.lines[0].get_ydata()[1:]) == pytest.approx(row["audio_underrun_s"])


def test_nan_is_refused_and_a_file_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(path, {"value": float("nan")})
    write_json(path, {"value": 1})
    with pytest.raises(FileExistsError):
        write_json(path, {"value": 2})
