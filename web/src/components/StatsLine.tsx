/** One quiet line of figures: the network's, the agent's, and which model answers. */

import type { ReactElement } from "react";

import type { CallState } from "../call";
import { describe } from "../stats";

interface StatsLineProps {
  readonly state: CallState;
  readonly model: string;
}

export function StatsLine({ state, model }: StatsLineProps): ReactElement {
  const parts = [
    model === "" ? "" : `model ${model}`,
    state.network === null ? "" : describe(state.network),
    lateness(state.agentFigures),
  ];
  return <footer className="stats">{parts.filter((part) => part !== "").join(" · ")}</footer>;
}

/** Frames that the agent's side lost because somebody was late; a full-duplex call never waits. */
function lateness(figures: CallState["agentFigures"]): string {
  const stepped = figures["frames.stepped"];
  if (stepped === undefined) {
    return "";
  }
  const unheard = sum(figures, "frames.dropped_overflow", "hearing.discarded");
  const unplayed = sum(figures, "speaker.dropped", "speaker.unplayed");
  return `${stepped} frames, ${unheard} of yours and ${unplayed} of the agent's came too late`;
}

function sum(figures: CallState["agentFigures"], ...names: string[]): number {
  return names.reduce((total, name) => total + (figures[name] ?? 0), 0);
}
