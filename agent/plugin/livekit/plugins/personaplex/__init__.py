"""PersonaPlex for LiveKit Agents: `DuplexModel` for `AgentSession`, `DuplexClient` for the rest."""

from .client import (
    AudioFormat,
    DuplexClient,
    DuplexClientBase,
    DuplexClientError,
    DuplexConnectionError,
    DuplexEvent,
    DuplexProtocolError,
    DuplexSessionClosedError,
    ReconnectPolicy,
    ResponseHandle,
    SessionConfig,
    build_realtime_url,
)
from .duplex_model import DuplexModel, DuplexSession

__all__ = [
    "AudioFormat",
    "DuplexClient",
    "DuplexClientBase",
    "DuplexClientError",
    "DuplexConnectionError",
    "DuplexEvent",
    "DuplexModel",
    "DuplexProtocolError",
    "DuplexSession",
    "DuplexSessionClosedError",
    "ReconnectPolicy",
    "ResponseHandle",
    "SessionConfig",
    "build_realtime_url",
]
