"""A telephone in a room: its bridge is played by a participant of kind SIP with its attributes."""

from __future__ import annotations

from tests.e2e.caller import Caller

NUMBER = "+12025550123"
BRIDGE = {
    "sip.callID": "SCL_test",
    "sip.callStatus": "ringing",
    "sip.phoneNumber": NUMBER,
    "sip.trunkPhoneNumber": "+12025550100",
    "sip.ruleID": "SDR_test",
    "sip.trunkID": "ST_test",
}
HASH_CODE = 11


def phone_in(url: str, room: str, status: str = "ringing") -> Caller:
    attributes = {**BRIDGE, "sip.callStatus": status}
    return Caller(url, room, identity=f"sip_{NUMBER}", kind="sip", attributes=attributes)


async def set_status(phone: Caller, status: str) -> None:
    """What the bridge says of the line: it is picked up, or put down."""
    await phone.room.local_participant.set_attributes({"sip.callStatus": status})


async def press(phone: Caller, digit: str) -> None:
    code = HASH_CODE if digit == "#" else int(digit)
    await phone.room.local_participant.publish_dtmf(code=code, digit=digit)
