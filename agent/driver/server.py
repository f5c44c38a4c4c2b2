"""What the driver asks a server over plain HTTP: where it is, which model it has."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit, urlunsplit

import aiohttp

from agent.driver.probe import DriverError

USUAL_VOICE = "NATF2.pt"


def http_base(url: str) -> str:
    """`http://host:port` of a websocket address, without path and query."""
    parts = urlsplit(url)
    scheme = "https" if parts.scheme == "wss" else "http"
    return urlunsplit((scheme, parts.netloc, "", "", ""))


async def only_model(http: aiohttp.ClientSession, url: str, api_key: str | None) -> str:
    """The name of the server's only model. Raises `DriverError` where there is another number."""
    names = [str(model["id"]) for model in await _listed(http, url, api_key, "models")]
    if len(names) != 1:
        raise DriverError("models", f"{len(names)} models served, name one with --model")
    return names[0]


async def default_voice(http: aiohttp.ClientSession, url: str, api_key: str | None) -> str:
    """The usual voice where the server has it or lists none, else the server's own default."""
    try:
        voices = await _listed(http, url, api_key, "voices")
    except DriverError:
        return USUAL_VOICE
    names = [str(voice["id"]) for voice in voices]
    own = [str(voice["id"]) for voice in voices if voice.get("default")]
    return USUAL_VOICE if USUAL_VOICE in names or not own else own[0]


async def _listed(
    http: aiohttp.ClientSession, url: str, api_key: str | None, what: str
) -> list[dict[str, Any]]:
    """The `data` of `/v1/{what}`. Raises `DriverError`, which names the host and the status."""
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    host = urlsplit(url).netloc.rpartition("@")[2]
    try:
        async with http.get(f"{http_base(url)}/v1/{what}", headers=headers) as response:
            response.raise_for_status()
            return [dict(entry) for entry in (await response.json())["data"]]
    except aiohttp.ClientResponseError as error:
        raise DriverError(what, f"{host} answered with HTTP {error.status}") from error
    except (aiohttp.ClientError, KeyError, TypeError, ValueError) as error:
        raise DriverError(what, f"no answer of this protocol from {host}") from error
