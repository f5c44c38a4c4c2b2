"""What dispatch metadata may ask for, and how it is refused."""

from __future__ import annotations

import json

import pytest

from agent.dispatch import Defaults, Dispatch, parse_dispatch
from agent.errors import SessionError
from model import Sampling, SessionSpec

pytestmark = pytest.mark.unit
SPEC = SessionSpec(voice="A.pt", persona="be kind")
DEFAULTS = Defaults(SPEC, ("A.pt", "B.pt"))


# contract: B1, H6
@pytest.mark.parametrize("metadata", ["", "  ", "{}", '{"voice": "", "persona": ""}'])
def test_silence_means_the_defaults(metadata: str) -> None:
    assert parse_dispatch(metadata, DEFAULTS) == Dispatch(SPEC, "all")


# contract: H6
def test_every_key() -> None:
    asked = {"voice": "B.pt", "persona": "sing", "seed": 7, "heard": "first"}
    allowed = Defaults(SPEC, ("A.pt", "B.pt"), allow_sampling=True)
    expected = SessionSpec("B.pt", "sing", Sampling(seed=7))
    assert parse_dispatch(json.dumps(asked), allowed) == Dispatch(expected, "first")


# contract: B1, B5, H6
@pytest.mark.parametrize(
    ("metadata", "code", "named"),
    [
        ("nonsense", "invalid_session_config", "JSON"),
        ("[1]", "invalid_session_config", "object"),
        ('{"voise": "A.pt"}', "invalid_session_config", "'voise'"),
        ('{"voice": "C.pt"}', "invalid_voice", "A.pt, B.pt"),
        ('{"voice": 3}', "invalid_session_config", "'voice'"),
        ('{"persona": ["x"]}', "invalid_session_config", "'persona'"),
        ('{"persona": "\\ud800"}', "invalid_session_config", "'persona'"),
        ("[" * 100_000, "invalid_session_config", "JSON"),
        ('{"seed": "1"}', "invalid_session_config", "'seed'"),
        ('{"seed": true}', "invalid_session_config", "'seed'"),
        ('{"seed": -1}', "invalid_session_config", "'seed'"),
        ('{"seed": 1}', "sampling_not_allowed", "--allow-sampling"),
    ],
)
def test_refusals_name_what_is_wrong(metadata: str, code: str, named: str) -> None:
    with pytest.raises(SessionError) as refused:
        parse_dispatch(metadata, DEFAULTS)
    assert refused.value.code == code
    assert named in refused.value.message
