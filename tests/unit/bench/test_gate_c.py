"""The report of Gate C: perfect for fp32 beside itself, an error of the right size for int8."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.bench.gate_c import FORMS, main

pytestmark = pytest.mark.unit
FRAMES = 5


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    target = tmp_path_factory.mktemp("gate-c") / "report.json"
    assert main(["--model", "tiny", "--frames", str(FRAMES), "--json", str(target)]) == 0
    report = json.loads(target.read_text())
    assert report["against"] == "float32" and set(report["forms"]) == set(FORMS)
    return report["forms"]  # type: ignore[no-any-return]


# Gate C
def test_the_reference_agrees_with_itself_in_everything(forms: dict[str, Any]) -> None:
    same = forms["float32"]
    for row in ("text", "audio"):
        assert same[row]["agreement"] == 1.0 and same[row]["nll_delta"] == 0.0
        assert same[row]["logit_error_max"] == same[row]["logit_error_relative"] == 0.0
    assert same["audio_agreement_by_codebook"] == [1.0] * 8 and same["codec_snr_db"] is None
    assert same["positions"] == FRAMES


# Gate C
@pytest.mark.parametrize("form", [form for form in FORMS if form != "float32"])
def test_another_form_is_near_and_never_called_identical(form: str, forms: dict[str, Any]) -> None:
    report = forms[form]
    for row in ("text", "audio"):
        assert 0 < report[row]["logit_error_relative"] < 0.3
        assert 0.3 < report[row]["agreement"] <= 1.0
        assert report[row]["nll_delta"] != 0.0
    assert len(report["audio_agreement_by_codebook"]) == 8
    assert ("int8" in form) == ("int8" in report["form"])


# Gate C
def test_a_bundled_checkpoint_can_be_reported_too(
    tiny_checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--model", str(tiny_checkpoint), "--frames", "3"]) == 0
    printed = capsys.readouterr().out
    assert "Gate C" in printed and printed.count("| int8 |") == 2
