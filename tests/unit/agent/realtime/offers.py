"""Offers of WebRTC calls with one part made wrong, by kind, and lines that are no offer at all."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from aiortc import RTCConfiguration, RTCPeerConnection

MANY_CANDIDATES = 1_500
"""About as many as fit the largest offer."""
LINES = [
    "v=0",
    "o=- 1 1 IN IP4 127.0.0.1",
    "s=-",
    "t=0 0",
    "m=audio 9 UDP/TLS/RTP/SAVPF 0",
]
PORTS = ["-1", "0", "65536", "99999999999999999999", "1e9", "9/9", ""]


async def good_offer(*kinds: str) -> str:
    """What a browser would send for these kinds of media and a channel of events."""
    peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    for kind in kinds:
        peer.addTransceiver(kind)
    peer.createDataChannel("oai-events")
    await peer.setLocalDescription(await peer.createOffer())
    offer: str = peer.localDescription.sdp
    await peer.close()
    return offer


def junk(offer: str, rng: Random) -> str:
    """A few lines that are none."""
    lines = rng.choices(LINES, k=rng.randrange(6))
    return "v=0\r\n" + "\r\n".join(lines) + rng.choice(["", "\x00"])


def no_fingerprint(offer: str, rng: Random) -> str:
    return _without(offer, "a=fingerprint:")


def wrong_fingerprint(offer: str, rng: Random) -> str:
    wrong = rng.choice(["sha-256 zz", "no-such-hash 00:11", "", "sha-256 " + "00:" * 10_000])
    return _replaced(offer, "a=fingerprint:", wrong)


def no_credentials(offer: str, rng: Random) -> str:
    return _without(offer, rng.choice(["a=ice-ufrag:", "a=ice-pwd:"]))


def absurd_port(offer: str, rng: Random) -> str:
    port = rng.choice(PORTS)
    lines = [
        f"m=audio {port} {line.split(' ', 2)[2]}" if line.startswith("m=audio") else line
        for line in offer.split("\r\n")
    ]
    return "\r\n".join(lines)


def absurd_candidates(offer: str, rng: Random) -> str:
    parts = [rng.choice(PORTS), rng.choice(["typ host", "typ", "typ no-such-type", ""])]
    where = rng.choice(["127.0.0.1", "::1", "999.0.0.1", "no.such.host.example.com", ""])
    return _with(offer, [f"a=candidate:1 1 udp 1 {where} {parts[0]} {parts[1]}"])


def many_candidates(offer: str, rng: Random) -> str:
    lines = [
        f"a=candidate:{number} 1 udp {number} 127.0.0.1 {10_000 + number} typ host"
        for number in range(MANY_CANDIDATES)
    ]
    return _with(offer, lines)


def no_audio(offer: str, rng: Random) -> str:
    """Only the channel of events is left."""
    start, *sections = offer.split("m=")
    return start + "".join(f"m={part}" for part in sections if not part.startswith("audio"))


def only_video(offer: str, rng: Random) -> str:
    return no_audio(offer, rng).replace("m=application", "m=video") + "a=rtpmap:96 VP8/90000\r\n"


def audio_twice(offer: str, rng: Random) -> str:
    start, *sections = offer.split("m=")
    return start + "".join(f"m={part}" for part in [*sections, *sections])


def unknown_codecs(offer: str, rng: Random) -> str:
    return _replaced(offer, "a=rtpmap:", "96 no-such-codec/48000/2")


def mangled(offer: str, rng: Random) -> str:
    """Some lines dropped, doubled, cut or swapped."""
    lines = offer.split("\r\n")
    for _ in range(rng.randrange(1, 6)):
        place = rng.randrange(1, len(lines))
        line = lines[place]
        cut = rng.randrange(len(line) + 1)
        lines[place : place + 1] = rng.choice([[], [line, line], [line[:cut]], [line[cut:]]])
    return "\r\n".join(lines)


Mutation = Callable[[str, Random], str]
KINDS: tuple[Mutation, ...] = (
    junk,
    no_fingerprint,
    wrong_fingerprint,
    no_credentials,
    absurd_port,
    absurd_candidates,
    many_candidates,
    no_audio,
    only_video,
    audio_twice,
    unknown_codecs,
    mangled,
)


def _without(offer: str, start: str) -> str:
    return "\r\n".join(line for line in offer.split("\r\n") if not line.startswith(start))


def _replaced(offer: str, start: str, rest: str) -> str:
    lines = offer.split("\r\n")
    return "\r\n".join(start + rest if line.startswith(start) else line for line in lines)


def _with(offer: str, lines: list[str]) -> str:
    """These lines at the end of the first section of media."""
    start, first, *others = offer.split("m=")
    return "m=".join([start, first + "".join(f"{line}\r\n" for line in lines), *others])
