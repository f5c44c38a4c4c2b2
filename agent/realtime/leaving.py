"""How the handler of a websocket leaves: shared by the Realtime websocket and `/api/chat`."""

from __future__ import annotations

from agent.endings import to_the_end
from agent.realtime.outbox import Outbox
from agent.realtime.socket import WatchedSocket
from agent.session import Session


async def leave(
    session: Session | None, outbox: Outbox, watched: WatchedSocket, close_code: int
) -> None:
    """Close the session and the socket, also where the handler is cancelled meanwhile."""
    if session is not None:
        session.close("disconnect")
    await to_the_end(_leave(session, outbox, watched, close_code))


async def _leave(
    session: Session | None, outbox: Outbox, watched: WatchedSocket, close_code: int
) -> None:
    """The session's last event goes out before the close frame, as far as anyone reads."""
    if session is not None:
        await session.wait_closed()
    outbox.close(close_code, "closed")
    await outbox.finished()
    watched.release()
    watched.abort()
