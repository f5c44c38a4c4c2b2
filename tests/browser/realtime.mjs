// A page that makes a WebRTC call of the Realtime API by itself, as OpenAI's guide shows it.

import { FAKE_MICROPHONE, PLAYS_AT_ONCE, opened, statistics, withBrowser } from "./chromium.mjs";
import { bringMicrophone, keepSound, speakUntilUnderstood, writeSound } from "./sound.mjs";

/** In the page: the offer leaves at once, with no candidate in it; the path of the call. */
async function dial({ calls, key }) {
  const microphone = await navigator.mediaDevices.getUserMedia({ audio: true });
  const peer = new RTCPeerConnection();
  peer.ontrack = ({ streams }) => {
    const loudspeaker = document.createElement("audio");
    loudspeaker.autoplay = true;
    loudspeaker.srcObject = streams[0];
    document.body.append(loudspeaker);
  };
  peer.addTrack(microphone.getAudioTracks()[0]);
  window.events = [];
  const channel = peer.createDataChannel("oai-events");
  channel.onmessage = ({ data }) => window.events.push(JSON.parse(data));
  const offer = await peer.createOffer();
  await peer.setLocalDescription(offer);
  const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/sdp" };
  const answer = await fetch(calls, { method: "POST", body: offer.sdp, headers });
  const sdp = await answer.text();
  if (answer.status !== 201) throw new Error(`${answer.status}: ${sdp}`);
  await peer.setRemoteDescription({ type: "answer", sdp });
  return answer.headers.get("Location");
}

/** In the page: the status with which the call is hung up. */
async function hangUp({ call, key }) {
  const headers = { Authorization: `Bearer ${key}` };
  return (await fetch(call, { method: "DELETE", headers })).status;
}

/** Event number `index` of its type, when the page has got it. */
async function event(page, type, index = 0) {
  const found = await page.waitForFunction(
    (sought) => window.events.filter((one) => one.type === sought.type)[sought.index],
    { type, index },
  );
  return found.jsonValue();
}

async function transcript(page, index) {
  const { response } = await event(page, "response.done", index);
  return response.output[0].content[0].transcript;
}

/** Hear the greeting out, ask what the WAV says, hear the answer out, hang up. */
export function realtime({ url, calls, key, wav, heard, fallbacks, times }) {
  return withBrowser([...FAKE_MICROPHONE, PLAYS_AT_ONCE], async (context) => {
    await bringMicrophone(context, wav);
    const page = await opened(context, url);
    const path = await page.evaluate(dial, { calls, key });
    const seen = { created: await event(page, "session.created") };
    seen.said = [await transcript(page, 0)];
    await page.evaluate(keepSound);
    await speakUntilUnderstood(page, { fallbacks, times }, async (time) => {
      seen.said.push(await transcript(page, time));
      return seen.said[time];
    });
    await writeSound(page, heard);
    seen.statistics = await statistics(page);
    seen.status = await page.evaluate(hangUp, { call: new URL(path, calls).href, key });
    seen.closed = await event(page, "session.closed");
    seen.errors = await page.evaluate(() => window.events.filter(({ type }) => type === "error"));
    return seen;
  });
}
