import { expect, it } from "vitest";

import { parseMessage } from "../src/messages";

const encode = (body: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(body));

it("keeps the numbers of a stats message", () => {
  const message = { type: "stats", epoch: 1, note: "x", frames: { stepped: 9 } };
  expect(parseMessage(encode(message))).toEqual({
    type: "stats",
    figures: { epoch: 1, "frames.stepped": 9 },
  });
});

it("reads why a call was refused or closed", () => {
  const refusal = { type: "state", state: "refused", code: "resource_exhausted", message: "busy" };
  expect(parseMessage(encode(refusal))).toEqual({
    type: "refused",
    code: "resource_exhausted",
    message: "busy",
  });
  expect(parseMessage(encode({ type: "state", state: "closed", code: 7 }))).toEqual({
    type: "closed",
    code: "",
    message: "",
  });
  expect(parseMessage(encode({ type: "state", state: "speaking" }))).toBeNull();
});

it.each([[{ type: "transcript" }], [null], ["text"]])("has no use for %j", (body) => {
  expect(parseMessage(encode(body))).toBeNull();
});

it("survives what is no JSON", () => {
  expect(parseMessage(new Uint8Array([0xff, 0x00]))).toBeNull();
});
