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
    ...Object.entries(state.agentFigures).filter(([name]) => name in SHOWN).map(figure),
  ];
  return <footer className="stats">{parts.filter((part) => part !== "").join(" · ")}</footer>;
}

const SHOWN: Record<string, (value: number) => string> = {
  step_ms: (value) => `step ${value.toFixed(0)} ms`,
  late_frames: (value) => `${value} frames late`,
  discarded_frames: (value) => `${value} frames discarded`,
};

function figure([name, value]: [string, number]): string {
  return SHOWN[name]?.(value) ?? "";
}
