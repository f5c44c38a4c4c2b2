// What is said into the microphone of a page, and what is heard from its audio element.

import { readFileSync, writeFileSync } from "node:fs";

/** Every page of the context gets a microphone that plays the WAV when it is told to `speak`. */
export function bringMicrophone(context, wav) {
  return context.addInitScript(installMicrophone, readFileSync(wav).toString("base64"));
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
export async function keepSound() {
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

/** What `keepSound` has kept, as 16 bit samples into the file `heard`. */
export async function writeSound(page, heard) {
  writeFileSync(heard, Int16Array.from(await page.evaluate(() => window.heard)));
}

/**
 * Have the WAV spoken, and once more where the answer is one of the `fallbacks`, up to so many
 * `times`. `answer` waits for the answer to the so-manieth time, and returns its text.
 */
export async function speakUntilUnderstood(page, { fallbacks, times }, answer) {
  for (let time = 1; time <= times; time += 1) {
    await page.evaluate(() => window.speak());
    const text = (await answer(time)).replace(/\s+/g, " ").trim();
    if (!fallbacks.includes(text)) break;
  }
}
