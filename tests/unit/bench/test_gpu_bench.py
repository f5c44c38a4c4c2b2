"""The GPU stages run dry on the CPU: each writes its file, and a second run skips them."""

import json
import re
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest

from tests.bench import gpu
from tests.bench.gpu import STAGES
from tests.bench.gpu_stages import Write, sessions
from tests.bench.plant import Plant

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "tests/bench/gpu.sh"
EIGHT_MINUTES = 480
TIMEOUT = 600
pytestmark = [pytest.mark.unit, pytest.mark.timeout(2 * TIMEOUT)]


def run_dry(folder: Path) -> dict[str, int]:
    """When each result was written."""
    environment = {"PYTHON": sys.executable, "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"}
    command = ["sh", str(SCRIPT), str(folder), "--dry"]
    subprocess.run(command, check=True, cwd=ROOT, env=environment, timeout=TIMEOUT)
    return {path.stem: path.stat().st_mtime_ns for path in folder.glob("*.json")}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("gpu")
    first, second = run_dry(folder), run_dry(folder)
    assert first == second and set(first) == set(STAGES)
    return {name: json.loads((folder / f"{name}.json").read_text()) for name in first}


def test_every_stage_writes_its_figures_once(results: dict[str, Any]) -> None:
    assert all(result["dry"] is True for result in results.values())
    assert {row["batch"] for row in results["steps"]["rows"]} == {1, 2}
    assert all(row["bandwidth_share"] > 0 for row in results["steps"]["rows"])
    assert results["paced"]["steps"] > 0 and results["paced"]["batch"] == 2
    assert [row["positions"] for row in results["start"]["rows"]] == [30, 90]
    searches = results["sessions"]["kv"]
    assert set(searches) == {"of the weights", "float8"}
    assert all(search["tried"] for search in searches.values())
    assert {"served", "young", "16 depformer steps", "int8 weights"} < set(
        results["ablations"]["rows"]
    )


def test_every_result_names_its_commit_and_says_that_it_is_whole(results: dict[str, Any]) -> None:
    assert all(result["complete"] is True for result in results.values())
    assert {result["commit"] for result in results.values()} == {gpu.commit()}


def test_only_stages_that_did_not_come_to_their_end_are_run_again(tmp_path: Path) -> None:
    for stage in STAGES:
        (tmp_path / f"{stage}.json").write_text('{"stage": "…", "complete": true}')
    (tmp_path / "steps.json").write_text('{"rows": [{"complete": true}, {}], "complete": false}')
    (tmp_path / "moshi.json").unlink()
    python, asked = tmp_path / "python", tmp_path / "asked"
    python.write_text(f'#!/bin/sh\necho "$3" >> "{asked}"\n')
    python.chmod(0o755)
    environment = {"PYTHON": str(python), "PATH": "/usr/bin:/bin"}
    command = ["sh", str(SCRIPT), str(tmp_path)]
    subprocess.run(command, check=True, cwd=ROOT, env=environment, timeout=TIMEOUT)
    assert asked.read_text().split() == ["steps", "moshi"]


def test_a_stage_that_is_cut_off_keeps_what_it_had_and_what_an_earlier_run_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(plant: Plant, write: Write) -> None:
        write({"figure": next(figures)})
        raise KeyboardInterrupt

    figures = iter([1, 2, 3])
    monkeypatch.setitem(STAGES, "env", fail)
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            gpu.main(["env", "--out", str(tmp_path), "--dry"])
    kept = {path.name: json.loads(path.read_text()) for path in tmp_path.iterdir()}
    assert {name: result["figure"] for name, result in kept.items()} == {
        "env.cut-off-1": 1,
        "env.cut-off-2": 2,
        "env.json": 3,
    }
    assert not any(result["complete"] for result in kept.values())


def test_without_git_a_result_names_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpu.commit() is None


def test_a_search_for_which_no_time_was_left_says_so() -> None:
    written = list[dict[str, Any]]()
    sessions(Plant(dry=True, seconds=0), written.append)
    (result,) = written
    assert set(result["kv"]) == {"of the weights", "float8"}
    assert all("time" in search["skipped"] for search in result["kv"].values())


def test_a_stepper_is_not_begun_while_the_last_one_is_held() -> None:
    """Of every stage, too: none of the dry run above would get past its second stepper."""
    plant = Plant(dry=True)
    held = plant.stepper(1)
    with pytest.raises(RuntimeError, match="still held"):
        plant.stepper(2)
    last = weakref.ref(held.frame_step)
    del held
    assert plant.stepper(2).slots == 2 and last() is None


def test_a_call_among_others_says_what_it_says_alone(results: dict[str, Any]) -> None:  # Gate A
    isolation = results["isolation"]
    assert isolation["slots_agree"] and isinstance(isolation["cuts_agree"], bool)
    assert isolation["past_codec_window"] and isolation["crossed_cut"]
    assert isolation["joined"] > isolation["released"] > 0 and isolation["held"] > 0
    assert isolation["first_difference"] is None


# contract: I5
def test_the_step_from_fixed_addresses_is_played_beside_the_eager_one(
    results: dict[str, Any],
) -> None:
    isolation = results["isolation"]
    assert isolation["replay_steps"] == isolation["steps"]
    assert isolation["replay_first_difference"] is None


def test_the_reference_runs_beside_ours_and_agrees(results: dict[str, Any]) -> None:
    assert results["moshi"]["tokens_agreeing"] == 1.0
    for row in results["moshi"]["rows"]:
        assert row["ratio_16"] > 0 and row["ratio_8"] > 0


def test_all_stages_have_eight_minutes_together() -> None:
    budgets = dict(re.findall(r"^run (\w+) (\d+)$", SCRIPT.read_text(), re.MULTILINE))
    assert list(budgets) == list(STAGES)
    assert sum(map(int, budgets.values())) <= EIGHT_MINUTES
