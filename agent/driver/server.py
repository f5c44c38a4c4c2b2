"""What the driver asks a server over plain HTTP: where it is, which model it has."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

import aiohttp

from agent.driver.probe import DriverError


def http_base(url: str) -> str:
    """`http://host:port` of a websocket address, without path and query."""
    parts = urlsplit(url)
    scheme = "https" if parts.scheme == "wss" else "http"
    return urlunsplit((scheme, parts.netloc, "", "", ""))


async def only_model(http: aiohttp.ClientSession, url: str, api_key: str | None) -> str:
    """The name of the server's only model. Raises `DriverError` where there is another number."""
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    try:
        async with http.get(f"{http_base(url)}/v1/models", headers=headers) as response:
            response.raise_for_status()
            listed = (await response.json())["data"]
            names = [str(model["id"]) for model in listed]
    except (aiohttp.ClientError, KeyError, TypeError, ValueError) as error:
        raise DriverError("models", type(error).__name__) from error
    if len(names) != 1:
        raise DriverError("models", f"{len(names)} models served, name one with --model")
    return names[0]
