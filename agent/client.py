"""Clients of a duplex session: over a websocket, and in this process without any socket.

async with InlineDuplexClient(manager, config=create_duplex_session_config()) as client:
    await client.append_audio(pcm_f32le)
    async for response in client.responses():
        async for chunk in response.audio():
            play(chunk)
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

from livekit.plugins.personaplex.client import (
    AudioFormat,
    DuplexClient,
    DuplexClientBase,
    DuplexConnectionError,
    SessionConfig,
)

from agent.errors import SessionError
from agent.manager import SessionManager
from agent.realtime.config import DUPLEX_MOOD, Limits
from agent.realtime.connection import Connection, OpenFailed

__all__ = [
    "AudioFormat",
    "DuplexClient",
    "InlineDuplexClient",
    "SessionConfig",
    "create_duplex_session_config",
]


def create_duplex_session_config(
    *, voice: str = "NATF2.pt", persona: str = "", **overrides: Any
) -> SessionConfig:
    """The session that PersonaPlex clients open: float32 at 24 kHz in, pcm16 at 24 kHz out."""
    config = SessionConfig(
        input_audio=AudioFormat("pcm_f32le", 24_000),
        output_audio=AudioFormat("pcm16", 24_000),
        voice=voice,
        instructions=persona,
    )
    return replace(config, **overrides)


class InlineDuplexClient(DuplexClientBase):
    """`DuplexClient` without the websocket: the same events, straight from the session."""

    def __init__(
        self,
        manager: SessionManager,
        *,
        model: str = "",
        config: SessionConfig | None = None,
        handshake_timeout_s: float = 30.0,
    ) -> None:
        super().__init__(model=model, config=config, handshake_timeout_s=handshake_timeout_s)
        limits = Limits(manager.engine.voices, manager.default_spec)
        self._connection = Connection(manager, DUPLEX_MOOD, limits, self._hand_over)
        self._opened = False

    async def __aenter__(self) -> InlineDuplexClient:
        await super().__aenter__()
        return self

    def _hand_over(self, text: str, *, audio: bool = False) -> None:
        self._take(json.loads(text))

    async def _connect(self) -> None:
        """There is nothing to connect to."""

    async def _transmit(self, event: dict[str, Any]) -> None:
        session = self._connection.session
        if self._opened and (session is None or session.state != "open"):
            raise DuplexConnectionError("the session has ended")
        if self._opened:
            self._connection.receive(event)
            await asyncio.sleep(0)
            return
        self._opened = True
        try:
            await self._connection.first(event)
        except SessionError as error:
            self._connection.projection.error(error)
        except OpenFailed:
            return  # the session has said why

    async def _disconnect(self) -> None:
        self._connection.close("disconnect")
        if self._connection.session is not None:
            await self._connection.session.wait_closed()
