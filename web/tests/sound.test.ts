import { expect, it } from "vitest";

import { BANDS, bandsOf, levelOf } from "../src/level";
import { condense, describe as describeNetwork } from "../src/stats";

it("measures level in dB below full scale", () => {
  expect(levelOf(new Float32Array(64).fill(0.1))).toBeCloseTo(-20, 1);
  expect(levelOf(new Float32Array(64))).toBe(-60);
});

it("gives each band its loudest bin", () => {
  const bins = new Uint8Array(BANDS * 4);
  bins[5] = 255;
  expect(bandsOf(bins).slice(0, 3)).toEqual([0, 1, 0]);
});

it("condenses a WebRTC report into one line", () => {
  const network = condense([
    { type: "candidate-pair", nominated: true, currentRoundTripTime: 0.004 },
    {
      type: "inbound-rtp",
      packetsLost: 2,
      jitterBufferDelay: 3,
      jitterBufferEmittedCount: 100,
      concealedSamples: 5,
      totalSamplesReceived: 1000,
    },
  ]);
  expect(describeNetwork(network)).toBe(
    "round trip 4 ms · jitter buffer 30 ms · 2 packets lost · 0.5 % concealed",
  );
});
