"""Taking the HTTP port, and what the log says of who may call."""

from __future__ import annotations

import logging

import pytest

from agent.ports import listen, say_who_may_call
from agent.settings import Settings
from tests.e2e.processes import free_port

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("host", "keys", "said"),
    [
        ("", "", [(logging.INFO, "no --api-keys: the API answers on loopback only")]),
        ("0.0.0.0", "", [(logging.WARNING, "no --api-keys: whoever reaches 0.0.0.0 may call")]),
        ("", "one", []),
    ],
)
def test_without_keys_the_log_says_who_may_call(
    host: str, keys: str, said: list[tuple[int, str]], caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(host=host, port=free_port(), api_keys=keys)
    with listen(settings) as listener:
        assert listener.getsockname()[0] == settings.bind_host
    with caplog.at_level(logging.INFO, "agent.ports"):
        say_who_may_call(settings)
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == said
