"""A LiveKit agent that talks through PersonaPlex: `python agent.py dev`.

Needs LIVEKIT_URL, LIVEKIT_API_KEY, LIVEKIT_API_SECRET and, unless the server runs on this machine
and its default port, PERSONAPLEX_URL.
"""

import os
import sys

from livekit.agents import Agent, AgentServer, AgentSession, JobContext, cli, room_io
from livekit.plugins import personaplex

NEEDED = ("LIVEKIT_URL", "LIVEKIT_API_KEY", "LIVEKIT_API_SECRET")
PERSONA = "You work for a small bakery. You enjoy a good conversation about bread."

# The model's server counts calls and refuses the one too many; this machine's CPU says nothing
# of that.
server = AgentServer(load_fnc=lambda *_: 0.0)


@server.rtc_session(agent_name="bakery")
async def bakery(ctx: JobContext) -> None:
    session = AgentSession(llm=personaplex.DuplexModel())
    audio = room_io.AudioInputOptions(frame_size_ms=80, auto_gain_control=False)
    await session.start(
        agent=Agent(instructions=PERSONA),
        room=ctx.room,
        room_options=room_io.RoomOptions(audio_input=audio),
        record=False,
    )


if __name__ == "__main__":
    missing = [name for name in NEEDED if not os.environ.get(name)]
    if missing and sys.argv[1:2] in (["dev"], ["start"]):
        sys.exit(f"not set: {', '.join(missing)}")
    cli.run_app(server)
