// Headless Chromium for one scenario, and what its connections say of themselves.

import { createRequire } from "node:module";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const require = createRequire(new URL("../../web/package.json", import.meta.url));
const { chromium } = require("playwright-core");

const PATIENCE_MS = 90_000;
const QUIET = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
export const PLAYS_AT_ONCE = "--autoplay-policy=no-user-gesture-required";
export const FAKE_MICROPHONE = [
  "--use-fake-device-for-media-stream",
  "--use-fake-ui-for-media-stream",
];

/** A fake microphone that plays the WAV over and over. */
export function playing(wav) {
  return [...FAKE_MICROPHONE, `--use-file-for-fake-audio-capture=${wav}`];
}

export async function withBrowser(flags, act) {
  const profile = mkdtempSync(join(tmpdir(), "chromium-"));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: [...QUIET, ...flags],
    viewport: { width: 1100, height: 850 },
  });
  context.setDefaultTimeout(PATIENCE_MS);
  // The page keeps its connections to itself; this is how the test gets at their statistics.
  await context.addInitScript(() => {
    window.connections = [];
    window.RTCPeerConnection = class extends window.RTCPeerConnection {
      constructor(...options) {
        super(...options);
        window.connections.push(this);
      }
    };
  });
  try {
    return await act(context);
  } finally {
    await context.close();
    rmSync(profile, { recursive: true, force: true });
  }
}

export async function opened(context, url) {
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  await page.goto(url);
  return page;
}

/** Energy and packets of everything received and sent, from getStats(). */
export function statistics(page) {
  return page.evaluate(async () => {
    const sums = { received: 0, energy: 0, lost: 0, sent: 0, pairs: 0 };
    for (const connection of window.connections) {
      for (const entry of (await connection.getStats()).values()) {
        if (entry.type === "inbound-rtp" && entry.kind === "audio") {
          sums.received += entry.packetsReceived;
          sums.energy += entry.totalAudioEnergy;
          sums.lost += entry.packetsLost;
        } else if (entry.type === "outbound-rtp" && entry.kind === "audio") {
          sums.sent += entry.packetsSent;
        } else if (entry.type === "candidate-pair" && entry.state === "succeeded") {
          sums.pairs += 1;
        }
      }
    }
    return sums;
  });
}
