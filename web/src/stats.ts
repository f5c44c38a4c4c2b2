/** The network's share of a call, read from WebRTC, as one line of text. */

export interface NetworkStats {
  readonly roundTripMs: number | null;
  readonly jitterBufferMs: number | null;
  readonly packetsLost: number;
  readonly concealedPercent: number;
}

/** Condense a `getStats()` report of the agent's audio receiver. */
export function condense(report: Iterable<Record<string, unknown>>): NetworkStats {
  let roundTripMs: number | null = null;
  let inbound: Record<string, unknown> = {};
  for (const entry of report) {
    if (entry["type"] === "candidate-pair" && entry["nominated"] === true) {
      roundTripMs = milliseconds(entry["currentRoundTripTime"]);
    } else if (entry["type"] === "inbound-rtp") {
      inbound = entry;
    }
  }
  const emitted = numberOf(inbound["jitterBufferEmittedCount"]);
  const received = numberOf(inbound["totalSamplesReceived"]);
  return {
    roundTripMs,
    jitterBufferMs:
      emitted > 0 ? milliseconds(numberOf(inbound["jitterBufferDelay"]) / emitted) : null,
    packetsLost: numberOf(inbound["packetsLost"]),
    concealedPercent:
      received > 0 ? (100 * numberOf(inbound["concealedSamples"])) / received : 0,
  };
}

export function describe(network: NetworkStats): string {
  const parts = [
    network.roundTripMs === null ? null : `round trip ${network.roundTripMs} ms`,
    network.jitterBufferMs === null ? null : `jitter buffer ${network.jitterBufferMs} ms`,
    `${network.packetsLost} packets lost`,
    `${network.concealedPercent.toFixed(1)} % concealed`,
  ];
  return parts.filter((part) => part !== null).join(" · ");
}

function milliseconds(seconds: unknown): number | null {
  return typeof seconds === "number" ? Math.round(seconds * 1000) : null;
}

function numberOf(value: unknown): number {
  return typeof value === "number" ? value : 0;
}
