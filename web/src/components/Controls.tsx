/** Connect, mute, hang up; and the click that some browsers want before they play sound. */

import type { ReactElement } from "react";

import type { Call, CallState } from "../call";

export function Controls({ call, state }: { call: Call; state: CallState }): ReactElement {
  const active = state.phase !== "idle" && state.phase !== "ended";
  if (!active) {
    return (
      <div className="controls">
        <button type="button" className="primary" onClick={() => void call.connect()}>
          {state.phase === "ended" ? "Connect again" : "Connect"}
        </button>
      </div>
    );
  }
  return (
    <div className="controls">
      {state.playbackBlocked && (
        <button type="button" className="primary" onClick={() => void call.unblockPlayback()}>
          Turn sound on
        </button>
      )}
      <button
        type="button"
        aria-pressed={state.muted}
        disabled={state.microphone === null}
        onClick={() => void call.toggleMute()}
      >
        {state.muted ? "Unmute" : "Mute"}
      </button>
      <button type="button" className="danger" onClick={() => void call.hangUp()}>
        Hang up
      </button>
    </div>
  );
}
