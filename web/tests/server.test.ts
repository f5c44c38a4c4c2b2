// @vitest-environment jsdom
import { afterEach, describe, expect, it, vi } from "vitest";

import { CallError } from "../src/failures";
import { apiKey, keepKey, takeKeyFromAddress } from "../src/key";
import { fetchStatus, requestRoom } from "../src/server";

const DETAILS = {
  serverUrl: "ws://127.0.0.1:7880",
  roomName: "room",
  participantName: "caller",
  participantToken: "token",
};

function answer(body: unknown, init?: ResponseInit): void {
  vi.stubGlobal("fetch", () => Promise.resolve(new Response(JSON.stringify(body), init)));
}

async function failureCode(): Promise<string> {
  const error: unknown = await requestRoom().catch((reason: unknown) => reason);
  return error instanceof CallError ? error.failure.code : "none";
}

afterEach(() => {
  vi.unstubAllGlobals();
  sessionStorage.clear();
});

describe("requestRoom", () => {
  it("returns the details", async () => {
    answer(DETAILS);
    expect(await requestRoom()).toEqual(DETAILS);
  });

  it("says when to try again if the agent is busy", async () => {
    answer({}, { status: 503, headers: { "Retry-After": "7" } });
    await expect(requestRoom()).rejects.toMatchObject({
      failure: { code: "agent-busy", advice: "Every line is taken. Try again in 7 seconds." },
    });
  });

  it("tells an absent server from a wrong answer", async () => {
    vi.stubGlobal("fetch", () => Promise.reject(new TypeError("refused")));
    expect(await failureCode()).toBe("worker-unreachable");
    answer({ ...DETAILS, participantToken: undefined });
    expect(await failureCode()).toBe("unexpected");
  });
});

describe("the key", () => {
  it("is taken from the address's fragment and out of sight", () => {
    history.replaceState(null, "", "/?a=1#key=s%C3%A9+cret");
    takeKeyFromAddress();
    expect(apiKey()).toBe("sé+cret");
    expect(location.href).toMatch(/\/\?a=1$/);
  });

  it("goes along as a bearer token", async () => {
    const asked = vi.fn(() => Promise.resolve(new Response(JSON.stringify(DETAILS))));
    vi.stubGlobal("fetch", asked);
    await requestRoom();
    expect(asked).toHaveBeenLastCalledWith(expect.anything(), { method: "POST", headers: {} });
    keepKey(" secret ");
    await requestRoom();
    expect(asked).toHaveBeenLastCalledWith(expect.anything(), {
      method: "POST",
      headers: { Authorization: "Bearer secret" },
    });
  });

  it("is asked for, and a wrong one is forgotten", async () => {
    answer({}, { status: 401 });
    expect(await failureCode()).toBe("key-needed");
    keepKey("wrong");
    expect(await failureCode()).toBe("key-wrong");
    expect(apiKey()).toBe("");
    keepKey("schlüssel→");
    expect(await failureCode()).toBe("key-wrong");
  });
});

describe("fetchStatus", () => {
  it("reads the model and its notice", async () => {
    answer({ model: { name: "tiny", notice: "random weights" } });
    expect(await fetchStatus()).toEqual({ model: "tiny", notice: "random weights" });
  });

  it("is null when nobody answers", async () => {
    vi.stubGlobal("fetch", () => Promise.reject(new TypeError("refused")));
    expect(await fetchStatus()).toBeNull();
  });
});
