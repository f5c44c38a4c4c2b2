import { describe, expect, it } from "vitest";

import { failure, microphoneFailure } from "../src/failures";

describe("microphoneFailure", () => {
  it.each([
    ["NotAllowedError", "microphone-denied"],
    ["NotFoundError", "microphone-missing"],
    ["NotReadableError", "microphone-busy"],
  ])("reads %s as %s", (name, code) => {
    expect(microphoneFailure(new DOMException("", name)).code).toBe(code);
  });

  it("passes on what it does not know", () => {
    expect(microphoneFailure(new Error("odd")).advice).toBe("odd");
  });
});

it("puts a given detail in place of the standard advice", () => {
  expect(failure("agent-refused", "unknown voice").advice).toBe("unknown voice");
});
