// Drives the built page, or one of its own, in headless Chromium: `node drive.mjs SCENARIO
// OPTIONS`. Prints one JSON object with what was seen; judging it is the test's part.

import {
  FAKE_MICROPHONE,
  PLAYS_AT_ONCE,
  opened,
  playing,
  statistics,
  withBrowser,
} from "./chromium.mjs";
import { realtime } from "./realtime.mjs";
import { bringMicrophone, keepSound, speakUntilUnderstood, writeSound } from "./sound.mjs";

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
  return withBrowser(playing(wav), async (context) => {
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
  return withBrowser(playing(wav), async (context) => {
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

/** Hear the greeting out, ask what the WAV says, hear the answer out; all sound into `heard`. */
function ask({ url, wav, heard, fallbacks, times }) {
  return withBrowser([...FAKE_MICROPHONE, PLAYS_AT_ONCE], async (context) => {
    await bringMicrophone(context, wav);
    const page = await opened(context, url);
    await connect(page);
    await isHere(page);
    const said = page.locator(".segment-agent[data-final=true]");
    await said.nth(0).waitFor();
    await page.evaluate(keepSound);
    await speakUntilUnderstood(page, { fallbacks, times }, async (time) => {
      await said.nth(time).waitFor();
      return said.nth(time).innerText();
    });
    await writeSound(page, heard);
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

const SCENARIOS = { call, ask, busy, given, unheard, realtime };
const [scenario, options] = process.argv.slice(2);
console.log(JSON.stringify(await SCENARIOS[scenario](JSON.parse(options))));
