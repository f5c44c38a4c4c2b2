"""The agent's methods: offered while the call lasts, withdrawn whatever its end."""

from __future__ import annotations

from typing import Any, cast

import pytest
from livekit import rtc

from agent import rpc
from agent.room import RoomCall

pytestmark = pytest.mark.unit
OFFERED = {f"personaplex.{name}" for name in ("cancel", "clear", "stats", "transfer")}


class Person:
    """What is used of `rtc.LocalParticipant`."""

    def __init__(self) -> None:
        self.methods: dict[str, rpc.Method] = {}

    def register_rpc_method(self, name: str, method: rpc.Method) -> None:
        self.methods[name] = method

    def unregister_rpc_method(self, name: str) -> None:
        del self.methods[name]


class Room:
    def __init__(self) -> None:
        self.local_participant = Person()


async def transfer(to: str) -> None:
    raise AssertionError(f"nobody was to be transferred to {to}")


def test_methods_are_withdrawn_when_the_call_ends() -> None:
    """The native side never lets go of a room where one is still registered."""
    room, call = cast(Any, Room()), cast(RoomCall, object())
    with rpc.offered(room, call, transfer):
        assert set(room.local_participant.methods) == OFFERED
    assert not room.local_participant.methods

    with pytest.raises(OSError), rpc.offered(room, call, transfer):
        raise OSError("the call failed")
    assert not room.local_participant.methods


@pytest.mark.parametrize("to", ['{"to": 5}', "{}", '{"to": "12025550100"}', "[]", "{"])
async def test_a_transfer_to_no_address_is_refused(to: str) -> None:
    room = cast(Any, Room())
    asked = rtc.RpcInvocationData("request", "caller", to, 10.0)
    with rpc.offered(room, cast(RoomCall, object()), transfer):
        method = room.local_participant.methods["personaplex.transfer"]
        with pytest.raises(rtc.RpcError):
            await method(asked)
