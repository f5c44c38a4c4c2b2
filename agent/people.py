"""LiveKit's participants as this worker sees them: who counts as a person, how somebody left.

Translations only; nothing here keeps state.
"""

from __future__ import annotations

from livekit import rtc

from agent.presence import Leaving

CALL_STATUS = "sip.callStatus"
AGENT_NAME = "lk.agent.name"
PERSON_KINDS = (
    rtc.ParticipantKind.PARTICIPANT_KIND_STANDARD,
    rtc.ParticipantKind.PARTICIPANT_KIND_SIP,
    rtc.ParticipantKind.PARTICIPANT_KIND_CONNECTOR,
)
CLEAN_REASONS = (
    rtc.DisconnectReason.CLIENT_INITIATED,
    rtc.DisconnectReason.PARTICIPANT_REMOVED,
    rtc.DisconnectReason.ROOM_DELETED,
)


def is_person(participant: rtc.RemoteParticipant) -> bool:
    """Agents, recorders and ingress never count."""
    return participant.kind in PERSON_KINDS


def is_agent(participant: rtc.RemoteParticipant, name: str) -> bool:
    """Whether this is an agent that was dispatched under the same name as we."""
    kind = rtc.ParticipantKind.PARTICIPANT_KIND_AGENT
    return participant.kind == kind and participant.attributes.get(AGENT_NAME) == name


def is_phone(participant: rtc.RemoteParticipant) -> bool:
    return participant.kind == rtc.ParticipantKind.PARTICIPANT_KIND_SIP


def has_answered(participant: rtc.RemoteParticipant) -> bool:
    """False while a telephone still rings (contract H7)."""
    return not is_phone(participant) or participant.attributes.get(CALL_STATUS) == "active"


def has_hung_up(participant: rtc.RemoteParticipant) -> bool:
    return is_phone(participant) and participant.attributes.get(CALL_STATUS) == "hangup"


def how_left(participant: rtc.RemoteParticipant) -> Leaving:
    clean = participant.disconnect_reason in CLEAN_REASONS or has_hung_up(participant)
    return Leaving.CLEAN if clean else Leaving.LOST


def is_speech(publication: rtc.RemoteTrackPublication) -> bool:
    """A microphone or a telephone, not the sound of a shared screen."""
    return (
        publication.kind == rtc.TrackKind.KIND_AUDIO
        and publication.source != rtc.TrackSource.SOURCE_SCREENSHARE_AUDIO
    )
