"""`WS /v1/realtime` and `WS /v1/duplex`: one code path, two moods.

Owns the socket's life: opening rules, reading, the client that does not read, the one that is
gone. What messages mean stands in `connection.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from aiohttp import WSMessage, WSMsgType, web

from agent.errors import Refused, SessionError
from agent.manager import SessionManager
from agent.realtime.config import DUPLEX_MOOD, STOCK_MOOD, Limits, Mood
from agent.realtime.connection import Connection, OpenFailed, mistake
from agent.realtime.events import event_id_of, load_json
from agent.realtime.leaving import leave
from agent.realtime.outbox import Outbox
from agent.realtime.socket import WatchedSocket

log = logging.getLogger(__name__)

FIRST_MESSAGE_S = 10.0
TRUE = frozenset({"1", "true", "on", "yes"})
FALSE = frozenset({"0", "false", "no", "off"})


def mood_of(request: web.Request) -> Mood:
    """`/v1/duplex` and `duplex=1` are duplex mood; all else is stock."""
    if request.path.endswith("/duplex"):
        return DUPLEX_MOOD
    return DUPLEX_MOOD if request.query.get("duplex", "").lower() in TRUE else STOCK_MOOD


class RealtimeSocket:
    """One websocket connection."""

    def __init__(
        self,
        watched: WatchedSocket,
        manager: SessionManager,
        limits: Limits,
        brought: Mapping[str, Any] | None,
    ) -> None:
        """`brought` is the session object of the client's key."""
        self._watched = watched
        self._manager = manager
        self._limits = limits
        self._brought = brought or {}
        self._outbox = Outbox(watched.socket, self._overflow)
        watched.ping = self._outbox.ping
        self._connection: Connection | None = None

    async def serve(self, request: web.Request) -> None:
        """Until the socket ends; whatever happens, the session is closed then."""
        connection = Connection(
            self._manager,
            mood_of(request),
            self._limits,
            self._send,
            accepts_create=request.path.endswith("/duplex"),
            brought=self._brought,
        )
        self._connection = connection
        connection.projection.on_closed = lambda reason: self._outbox.close(1000, reason)
        try:
            if await self._open(connection, request):
                await self._read(connection)
        finally:
            await leave(connection.session, self._outbox, self._watched, 1000)

    async def _open(self, connection: Connection, request: web.Request) -> bool:
        """By URL or key, or by the first message; false where there is no session to go on with."""
        model = request.query.get("model")
        if mood_of(request) is STOCK_MOOD:
            model = model or self._brought.get("model")
        waits = request.query.get("autostart", "").lower() in FALSE
        resumes = request.query.get("resume", "").lower() in TRUE
        message: dict[str, Any] = {}
        try:
            if model and not (waits or resumes):
                await connection.open({"model": model}, explicit=False)
                return True
            first = await self._first_message()
            if first is None:
                return False
            message = first
            await connection.first(message)
            return True
        except OpenFailed:
            self._outbox.close(1000, "open_failed")
        except SessionError as error:
            error.event_id = event_id_of(message)
            self._refuse(connection, error)
        except Exception:
            log.exception("an opening broke the handler; its session is closed")
            self._refuse(connection, mistake(event_id_of(message)))
            connection.close("internal_error")
        return connection.session is not None and connection.session.state == "open"

    async def _first_message(self) -> dict[str, Any] | None:
        """A first JSON object; what is none is answered and the client may try again."""
        assert self._connection is not None
        try:
            while (message := await self._watched.first(FIRST_MESSAGE_S)) is not None:
                try:
                    return self._decode(message)
                except SessionError as error:
                    self._connection.projection.error(error)
        except TimeoutError:
            raise SessionError(
                "config_timeout", f"no first message within {FIRST_MESSAGE_S:.0f} s"
            ) from None
        return None

    def _refuse(self, connection: Connection, error: SessionError) -> None:
        """Say why; where no session was opened the socket ends, at once or to come back later."""
        connection.projection.error(error)
        if connection.session is None:
            self._outbox.close(1013 if isinstance(error, Refused) else 1000, error.code)

    async def _read(self, connection: Connection) -> None:
        async for message in self._watched.messages():
            try:
                connection.receive(self._decode(message))
            except SessionError as error:
                connection.projection.error(error)

    def _decode(self, message: WSMessage) -> dict[str, Any]:
        if message.type is not WSMsgType.TEXT:
            raise SessionError("invalid_json", "messages are text frames")
        return load_json(message.data)

    def _send(self, text: str, *, audio: bool = False) -> None:
        self._outbox.put(text, audio=audio)

    def _overflow(self) -> None:
        """The client does not read: its session ends now, its socket soon."""
        assert self._connection is not None
        self._connection.projection.error(
            SessionError("output_backpressure", "64 audio frames wait; the client does not read")
        )
        self._outbox.close(1008, "output_backpressure")
        self._connection.close("output_backpressure")
