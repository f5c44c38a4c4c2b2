"""The methods that people in the room may call on the agent (`docs/rooms.md` documents them).

`personaplex.cancel`, `.clear`, `.stats` and `.transfer`; a refusal reaches the caller as an RPC
error whose data is the error code. It knows no audio.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from livekit import rtc

from agent.errors import SessionError
from agent.realtime.events import load_json
from agent.room import RoomCall

REFUSED = 4000
"""Our application's RPC error number; LiveKit keeps 1001 to 1999 for itself."""
MODES = (None, "hard", "soft")
Method = Callable[[rtc.RpcInvocationData], Awaitable[str]]
Transfer = Callable[[str], Awaitable[None]]
"""Sends the telephone caller on to another number or address."""


@contextmanager
def offered(room: rtc.Room, call: RoomCall, transfer: Transfer) -> Iterator[None]:
    """The methods, for as long as the block lasts; needs a room that is connected.

    They are withdrawn at the end, whatever became of the room: the native side keeps a room with a
    registered method for ever, half a megabyte of it.
    """
    person = room.local_participant
    methods = _methods(call, transfer)
    for name, method in methods.items():
        person.register_rpc_method(name, method)
    try:
        yield
    finally:
        for name in methods:
            person.unregister_rpc_method(name)


def _methods(call: RoomCall, transfer: Transfer) -> dict[str, Method]:

    async def cancel(invocation: rtc.RpcInvocationData) -> str:
        mode = _payload(invocation).get("mode")
        if mode not in MODES:
            raise _refusal("bad_event", f"mode {mode!r} is neither 'soft' nor 'hard'")
        return _do(lambda: call.cancel(mode))

    async def clear(invocation: rtc.RpcInvocationData) -> str:
        return _do(lambda: call.cancel("hard"))

    async def stats(invocation: rtc.RpcInvocationData) -> str:
        return json.dumps({**call.stats(), "media": await call.media()})

    async def transfer_call(invocation: rtc.RpcInvocationData) -> str:
        to = _payload(invocation).get("to")
        if not isinstance(to, str) or not to.startswith(("tel:", "sip:")):
            raise _refusal("bad_event", "'to' must be an address like tel:+12025550100")
        await transfer(to)
        return "{}"

    methods = {"cancel": cancel, "clear": clear, "stats": stats, "transfer": transfer_call}
    return {f"personaplex.{name}": method for name, method in methods.items()}


def _payload(invocation: rtc.RpcInvocationData) -> dict[str, Any]:
    try:
        return load_json(invocation.payload or "{}")
    except SessionError as error:
        raise _refusal(error.code, error.message) from error


def _do(action: Callable[[], None]) -> str:
    try:
        action()
    except SessionError as error:
        raise _refusal(error.code, error.message) from error
    return "{}"


def _refusal(code: str, message: str) -> rtc.RpcError:
    return rtc.RpcError(REFUSED, message, code)
