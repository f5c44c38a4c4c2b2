"""PersonaPlex for LiveKit Agents: `DuplexModel` for `AgentSession`, `DuplexClient` for the rest."""

from .client import (
    AudioFormat,
    DuplexClient,
    DuplexClientError,
    DuplexConnectionError,
    DuplexProtocolError,
    DuplexSessionClosedError,
    SessionConfig,
)
from .duplex_model import DuplexModel, DuplexSession

__all__ = [
    "AudioFormat",
    "DuplexClient",
    "DuplexClientError",
    "DuplexConnectionError",
    "DuplexModel",
    "DuplexProtocolError",
    "DuplexSession",
    "DuplexSessionClosedError",
    "SessionConfig",
]
