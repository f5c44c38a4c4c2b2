// Drives the built page in headless Chromium: `node drive.mjs SCENARIO OPTIONS`. Prints one JSON
// object with what was seen; judging it is the test's part.

import { createRequire } from "node:module";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
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
const PLAYS_AT_ONCE = "--autoplay-policy=no-user-gesture-required";
const FAKE_MICROPHONE = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"];

async function withBrowser(flags, act) {
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

async function opened(context, url) {
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  await page.goto(url);
  return page;
}

const connect = (page) => page.getByRole("button", { name: /^Connect/ }).click();
async function failureOf(page) {
  const note = page.getByRole("alert");
  await note.waitFor();
  return { code: await note.getAttribute("data-code"), text: await note.innerText() };
}

/** Until the agent is heard; where the page says that it will not be, that is the error. */
async function isHere(page) {
  await page.locator(".meter-agent[data-live=true], [role=alert]").first().waitFor();
  if ((await page.getByRole("alert").count()) > 0) {
    throw new Error(JSON.stringify(await failureOf(page)));
  }
}

/** Energy and packets of everything received and sent, from getStats(). */
function statistics(page) {
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

/** The loudest sample that an AnalyserNode sees on the page's audio element within `frames`. */
function loudest(page, frames) {
  return page.evaluate(async (count) => {
    const context = new AudioContext();
    const stream = document.querySelector("audio").srcObject;
    const analyser = context.createAnalyser();
    context.createMediaStreamSource(stream).connect(analyser);
    const samples = new Float32Array(analyser.fftSize);
    let peak = 0;
    for (let at = 0; at < count; at += 1) {
      await new Promise(requestAnimationFrame);
      analyser.getFloatTimeDomainData(samples);
      peak = samples.reduce((most, sample) => Math.max(most, Math.abs(sample)), peak);
    }
    await context.close();
    return peak;
  }, frames);
}

/** The first level above silence that the page's own meter shows, in dBFS. */
async function levelOf(page, side) {
  const reading = await page.waitForFunction((selector) => {
    const level = Number(document.querySelector(selector).getAttribute("aria-valuenow"));
    return level > -60 && level;
  }, `.meter-${side} [role=meter]`);
  return reading.jsonValue();
}

/** A whole call: connect, hear, read, mute, hang up. */
function call({ url, wav, screenshot }) {
  const flags = [...FAKE_MICROPHONE, `--use-file-for-fake-audio-capture=${wav}`];
  return withBrowser(flags, async (context) => {
    const page = await opened(context, url);
    const notice = page.locator(".notice");
    await notice.first().waitFor();
    await connect(page);
    await isHere(page);
    const segment = page.locator(".segment-agent").first();
    await segment.waitFor();
    const peak = await loudest(page, 120);
    const seen = {
      notice: await notice.allInnerTexts(),
      peak,
      statistics: await statistics(page),
      levels: { you: await levelOf(page, "you"), agent: await levelOf(page, "agent") },
      transcript: await segment.innerText(),
    };
    await page.screenshot({ path: screenshot });
    await page.getByRole("button", { name: "Mute" }).click();
    seen.muted = await page.locator(".meter-you .caption").innerText();
    await page.getByRole("button", { name: "Hang up" }).click();
    await page.getByRole("button", { name: "Connect again" }).waitFor();
    seen.kept = await page.locator(".segment-agent").count();
    seen.failures = await page.getByRole("alert").count();
    return seen;
  });
}

/** Somebody is in a call on the only line; what does the next visitor read? */
function busy({ url, wav }) {
  const flags = [...FAKE_MICROPHONE, `--use-file-for-fake-audio-capture=${wav}`];
  return withBrowser(flags, async (context) => {
    const first = await opened(context, url);
    await connect(first);
    await isHere(first);
    const second = await opened(context, url);
    await connect(second);
    const refused = await failureOf(second);
    await first.getByRole("button", { name: "Hang up" }).click();
    return { refused };
  });
}

/** In the page: a microphone that is silent until `speak` plays the WAV into it, once. */
function installMicrophone(wav) {
  navigator.mediaDevices.getUserMedia = async () => {
    const context = new AudioContext();
    const microphone = context.createMediaStreamDestination();
    const silence = new ConstantSourceNode(context, { offset: 0 });
    silence.connect(microphone);
    silence.start();
    const bytes = Uint8Array.from(atob(wav), (letter) => letter.charCodeAt(0));
    const buffer = await context.decodeAudioData(bytes.buffer);
    window.speak = () => {
      const voice = new AudioBufferSourceNode(context, { buffer });
      voice.connect(microphone);
      voice.start();
    };
    return microphone.stream;
  };
}

/** In the page: keep what its audio element plays from now on, at 24 kHz, in `heard`. */
async function keepSound() {
  const tap = `registerProcessor("tap", class extends AudioWorkletProcessor {
    process([[channel]]) {
      if (channel) this.port.postMessage(channel.slice());
      return true;
    }
  })`;
  const context = new AudioContext({ sampleRate: 24000 });
  const script = new Blob([tap], { type: "text/javascript" });
  await context.audioWorklet.addModule(URL.createObjectURL(script));
  const node = new AudioWorkletNode(context, "tap");
  window.heard = [];
  node.port.onmessage = ({ data }) => {
    window.heard.push(...Array.from(data, (sample) => Math.round(sample * 32767)));
  };
  context.createMediaStreamSource(document.querySelector("audio").srcObject).connect(node);
  node.connect(context.destination);
}

/**
 * Hear the greeting out, ask what the WAV says, hear the answer out; 16 bit samples into `heard`.
 * Where the answer is one of the `fallbacks` it is asked again, up to so many `times`.
 */
function ask({ url, wav, heard, fallbacks, times }) {
  return withBrowser([...FAKE_MICROPHONE, PLAYS_AT_ONCE], async (context) => {
    await context.addInitScript(installMicrophone, readFileSync(wav).toString("base64"));
    const page = await opened(context, url);
    await connect(page);
    await isHere(page);
    const said = page.locator(".segment-agent[data-final=true]");
    await said.nth(0).waitFor();
    await page.evaluate(keepSound);
    for (let time = 1; time <= times; time += 1) {
      await page.evaluate(() => window.speak());
      await said.nth(time).waitFor();
      const answer = (await said.nth(time).innerText()).replace(/\s+/g, " ").trim();
      if (!fallbacks.includes(answer)) break;
    }
    const samples = await page.evaluate(() => window.heard);
    writeFileSync(heard, Int16Array.from(samples));
    const seen = { transcript: await said.allInnerTexts(), statistics: await statistics(page) };
    await page.getByRole("button", { name: "Hang up" }).click();
    await page.getByRole("button", { name: "Connect again" }).waitFor();
    return seen;
  });
}

/** The page is loaded, then its token endpoint answers with `details`, or not at all. */
function given({ url, details }) {
  return withBrowser(FAKE_MICROPHONE, async (context) => {
    const page = await opened(context, url);
    await page.route("**/api/connection-details", (route) =>
      details === null ? route.abort() : route.fulfill({ json: details }),
    );
    await connect(page);
    return failureOf(page);
  });
}

/** No microphone, or no permission to use it. */
function unheard({ url, flags }) {
  return withBrowser(flags, async (context) => {
    const page = await opened(context, url);
    await connect(page);
    return failureOf(page);
  });
}

const SCENARIOS = { call, ask, busy, given, unheard };
const [scenario, options] = process.argv.slice(2);
console.log(JSON.stringify(await SCENARIOS[scenario](JSON.parse(options))));
