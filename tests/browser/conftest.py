"""The LiveKit server that the browser's tests share, module by module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.processes import LiveKitServer


@pytest.fixture(scope="module")
def livekit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKitServer]:
    server = LiveKitServer(tmp_path_factory.mktemp("livekit"))
    server.start()
    yield server
    server.kill()
