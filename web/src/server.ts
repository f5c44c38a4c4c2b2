/** The worker's own HTTP: a token for a room of one's own, and what is running there. */

import { CallError, failure } from "./failures";
import { apiKey, forgetKey } from "./key";

export interface ConnectionDetails {
  readonly serverUrl: string;
  readonly roomName: string;
  readonly participantName: string;
  readonly participantToken: string;
}

export interface ServerStatus {
  readonly model: string;
  /** What a caller must know about the model, such as that its weights are random. */
  readonly notice: string | null;
}

const BUSY = 503;
const UNAUTHORISED = 401;
/** What a header can hold; `fetch` throws for the rest. */
const SENDABLE = /^[ -~]*$/;

/** Ask for a room with the agent in it; throws `CallError` when there is none to be had. */
export async function requestRoom(): Promise<ConnectionDetails> {
  const key = apiKey();
  if (!SENDABLE.test(key)) {
    throw wrongKey();
  }
  const response = await post("api/connection-details", key);
  if (response.status === UNAUTHORISED) {
    throw key === "" ? new CallError(failure("key-needed")) : wrongKey();
  }
  if (response.status === BUSY) {
    throw new CallError(failure("agent-busy", busyAdvice(response.headers.get("Retry-After"))));
  }
  if (!response.ok) {
    throw new CallError(failure("worker-unreachable", `It answered with ${response.status}.`));
  }
  return connectionDetails(await response.json());
}

function wrongKey(): CallError {
  forgetKey();
  return new CallError(failure("key-wrong"));
}

async function post(path: string, key: string): Promise<Response> {
  const headers: HeadersInit = key === "" ? {} : { Authorization: `Bearer ${key}` };
  try {
    return await fetch(path, { method: "POST", headers });
  } catch {
    throw new CallError(failure("worker-unreachable"));
  }
}

function busyAdvice(retryAfter: string | null): string | undefined {
  const seconds = Number(retryAfter);
  return seconds > 0 ? `Every line is taken. Try again in ${seconds} seconds.` : undefined;
}

function connectionDetails(body: unknown): ConnectionDetails {
  const details = body as Partial<Record<keyof ConnectionDetails, unknown>>;
  const text = (key: keyof ConnectionDetails): string => {
    const value = details[key];
    if (typeof value !== "string") {
      throw new CallError(failure("unexpected", `The server's answer lacks ${key}.`));
    }
    return value;
  };
  return {
    serverUrl: text("serverUrl"),
    roomName: text("roomName"),
    participantName: text("participantName"),
    participantToken: text("participantToken"),
  };
}

/** What the worker runs; null while it cannot be reached or has not said. */
export async function fetchStatus(): Promise<ServerStatus | null> {
  try {
    const response = await fetch("ready");
    const body = (await response.json()) as { model?: { name?: unknown; notice?: unknown } };
    const { name, notice } = body.model ?? {};
    return {
      model: typeof name === "string" ? name : "",
      notice: typeof notice === "string" ? notice : null,
    };
  } catch {
    return null;
  }
}
