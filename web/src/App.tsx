/** The one page: who is talking, what the agent says, and the buttons of a call. */

import { type ReactElement, useEffect, useState, useSyncExternalStore } from "react";

import type { Call, CallState } from "./call";
import { Controls } from "./components/Controls";
import { FailureNote } from "./components/FailureNote";
import { KeyForm } from "./components/KeyForm";
import { Meter } from "./components/Meter";
import { StatsLine } from "./components/StatsLine";
import { TranscriptLog } from "./components/TranscriptLog";
import type { Failure } from "./failures";
import { fetchStatus, type ServerStatus } from "./server";

export function App({ call }: { call: Call }): ReactElement {
  const state = useSyncExternalStore(call.subscribe, call.snapshot);
  const status = useServerStatus(state.phase);
  return (
    <main className="page">
      <header className="masthead">
        <h1>PersonaPlex</h1>
        <p>A voice agent that listens while it speaks. Talk to it, and over it, as you like.</p>
        {status?.notice != null && <p className="notice">{status.notice}</p>}
      </header>
      <section className="stage" aria-label="Call">
        <Meter name="You" track={state.microphone} caption={microphoneCaption(state)} side="you" />
        <Meter name="Agent" track={state.agentAudio} caption={agentCaption(state)} side="agent" />
      </section>
      <Controls call={call} state={state} />
      {state.failure !== null && (
        <div>
          <FailureNote failure={state.failure} />
          {wantsKey(state.failure) && <KeyForm call={call} />}
        </div>
      )}
      <TranscriptLog transcript={state.transcript} />
      <StatsLine state={state} model={status?.model ?? ""} />
    </main>
  );
}

/** Asked for at the start and around calls, since a worker may be replaced while the page is open. */
function useServerStatus(phase: CallState["phase"]): ServerStatus | null {
  const [status, setStatus] = useState<ServerStatus | null>(null);
  const settled = phase === "idle" || phase === "ended" || phase === "live";
  useEffect(() => {
    let current = true;
    if (settled) {
      void fetchStatus().then((fetched) => {
        if (current) {
          setStatus(fetched);
        }
      });
    }
    return () => {
      current = false;
    };
  }, [settled, phase]);
  return status;
}

function wantsKey({ code }: Failure): boolean {
  return code === "key-needed" || code === "key-wrong";
}

function microphoneCaption(state: CallState): string {
  if (state.microphone === null) {
    return "microphone off";
  }
  return state.muted ? "muted" : "microphone on";
}

const PHASE_CAPTIONS: Record<CallState["phase"], string> = {
  idle: "not connected",
  connecting: "connecting…",
  waiting: "joining…",
  live: "here",
  reconnecting: "reconnecting…",
  ended: "call ended",
};

function agentCaption({ phase, agentState }: CallState): string {
  return phase === "live" && agentState !== "" ? agentState : PHASE_CAPTIONS[phase];
}
