"""One log line for each outage of the LiveKit server, and one for its end.

Two things can be away: the server itself, which the framework notices as it reconnects, and what
the server needs to place calls (its Redis), which nobody would notice while the registration stays
up; so the server is asked now and then. Nothing here registers or takes calls.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import aiohttp
from google.protobuf.message import DecodeError
from livekit import api

from agent.settings import Settings

log = logging.getLogger(__name__)
ANSWER_SECONDS = 10.0
ASK_EVERY_SECONDS = 10.0
REFUSALS = (401, 403)


class NotLiveKit(ValueError):
    """Something else answers, such as a proxy with a page of its own."""

    def __init__(self) -> None:
        super().__init__("what answers there is no LiveKit server, perhaps a proxy")


async def ask_server(settings: Settings) -> None:
    """A question that needs all of the server.

    Raises `api.TwirpError`, `NotLiveKit`, or what a network does.
    """
    try:
        async with (
            asyncio.timeout(ANSWER_SECONDS),
            api.LiveKitAPI(
                settings.livekit_url, settings.livekit_api_key, settings.livekit_api_secret
            ) as livekit,
        ):
            await livekit.room.list_rooms(api.ListRoomsRequest(names=["-"]))
    except DecodeError as error:
        raise NotLiveKit from error
    except api.TwirpError as error:
        if error.message or error.status in REFUSALS:
            raise
        raise NotLiveKit from error  # a page with an error's status


async def check_server(settings: Settings) -> str | None:
    """Why the LiveKit server cannot be used, in one line, or none."""
    url = settings.livekit_url
    try:
        await ask_server(settings)
    except api.TwirpError as error:
        if error.status in REFUSALS:
            return (
                f"the LiveKit server at {url} refuses the key or the secret; "
                "check LIVEKIT_API_KEY and LIVEKIT_API_SECRET against its `keys`"
            )
        return f"the LiveKit server at {url} answers {error.code}: {error.message}"
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
        why = str(error) or f"no answer within {ANSWER_SECONDS:g} s"
        return f"no LiveKit server at {url} ({why}); check LIVEKIT_URL or start the server"
    return None


class LostServer(logging.Filter):
    """One line for a lost server, where the framework has one for each attempt to reconnect."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self._lasting = False

    def over(self) -> None:
        self._lasting = False

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.getMessage().startswith("failed to connect to livekit"):
            return True
        if not self._lasting:
            self._lasting = True
            log.warning("lost the LiveKit server at %s; trying until it is back", self._url)
        return False


class HelplessServer:
    """Notices a server that answers and yet cannot place calls; `run` is its one task."""

    def __init__(self, url: str, ask: Callable[[], Awaitable[None]]) -> None:
        self._url = url
        self._ask = ask
        self._lasting = False

    async def run(self) -> None:
        while True:
            await asyncio.sleep(ASK_EVERY_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Ask once, and say what has changed."""
        try:
            await self._ask()
        except api.TwirpError as error:
            self._began(error.message, "" if error.status in REFUSALS else "; is its Redis up?")
        except NotLiveKit as error:
            self._began(str(error))
        except (aiohttp.ClientError, OSError, TimeoutError):
            return  # the server itself is away, which the lost registration tells
        else:
            if self._lasting:
                self._lasting = False
                log.info("the LiveKit server at %s can place calls again", self._url)

    def _began(self, why: str, ask: str = "") -> None:
        if not self._lasting:
            self._lasting = True
            log.warning("the LiveKit server at %s cannot place calls (%s)%s", self._url, why, ask)
