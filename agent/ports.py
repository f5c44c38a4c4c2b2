"""Ports that a command needs, asked for before anything that takes seconds; knows no server."""

from __future__ import annotations

import socket

from agent.command import CommandError
from agent.settings import Settings


def listen(settings: Settings) -> socket.socket:
    """The HTTP app's port, taken. Raises `CommandError` naming port and setting."""
    host, port = settings.bind_host, settings.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        # Listening too: two sockets that only bind may share a port.
        listener.listen()
    except OSError as error:
        listener.close()
        raise CommandError(
            f"port {port} on {host} cannot be used ({error.strerror}); "
            "choose another with --port (PERSONAPLEX_PORT)"
        ) from None
    return listener
