"""Ports that a command needs, asked for before anything that takes seconds; knows no server."""

from __future__ import annotations

import logging
import socket

from agent.command import CommandError
from agent.settings import Settings

log = logging.getLogger(__name__)

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


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


def say_who_may_call(settings: Settings) -> None:
    """Where there are no keys, which is right on loopback only."""
    if settings.api_keys:
        return
    if settings.bind_host in LOOPBACK:
        log.info("no --api-keys: the API answers on loopback only")
    else:
        log.warning("no --api-keys: whoever reaches %s may call", settings.bind_host)
