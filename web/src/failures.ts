/** Every way a call can fail, and the words for it: what happened and what to do. */

export type FailureCode =
  | "insecure-page"
  | "microphone-denied"
  | "microphone-missing"
  | "microphone-busy"
  | "worker-unreachable"
  | "key-needed"
  | "key-wrong"
  | "livekit-unreachable"
  | "agent-busy"
  | "agent-missing"
  | "agent-left"
  | "agent-refused"
  | "agent-closed"
  | "connection-lost"
  | "unexpected";

export interface Failure {
  readonly code: FailureCode;
  readonly title: string;
  readonly advice: string;
}

const TEXTS: Record<FailureCode, readonly [title: string, advice: string]> = {
  "insecure-page": [
    "This page may not use a microphone",
    "Browsers allow it on https and on localhost only. Open the page by one of these.",
  ],
  "microphone-denied": [
    "No permission to use the microphone",
    "Allow the microphone for this page in the browser's address bar, then connect again.",
  ],
  "microphone-missing": [
    "No microphone found",
    "Plug one in or choose one in the system's sound settings, then connect again.",
  ],
  "microphone-busy": [
    "The microphone cannot be opened",
    "Another program may be holding it. Close that program, then connect again.",
  ],
  "worker-unreachable": [
    "The agent's server cannot be reached",
    "Check that it is running and that you are online, then connect again.",
  ],
  "key-needed": [
    "This server asks for a key",
    "Enter one below; whoever runs the server has it. The key is forgotten with this tab.",
  ],
  "key-wrong": [
    "The server does not accept this key",
    "Check it for typing errors, or ask whoever runs the server for a valid one.",
  ],
  "livekit-unreachable": [
    "The media server cannot be reached",
    "The LiveKit server may be down, or a firewall may block it. Try again in a moment.",
  ],
  "agent-busy": ["The agent is busy", "Every line is taken. Try again in a moment."],
  "agent-missing": [
    "The agent did not join",
    "It was called but did not come within 20 seconds. Try again in a moment.",
  ],
  "agent-left": ["The agent left the call", "Connect again to start a new one."],
  "agent-refused": ["The agent refused the call", "Its server gave no reason."],
  "agent-closed": ["The agent ended the call", "Connect again to start a new one."],
  "connection-lost": [
    "The connection was lost",
    "The network or the server went away. Connect again to start a new call.",
  ],
  unexpected: ["Something went wrong", "Connect again; reload the page if it happens twice."],
};

/** The failure `code`, with `detail` in place of the standard advice where there is one. */
export function failure(code: FailureCode, detail?: string): Failure {
  const [title, advice] = TEXTS[code];
  return { code, title, advice: detail ?? advice };
}

export class CallError extends Error {
  readonly failure: Failure;

  constructor(reason: Failure) {
    super(reason.title);
    this.failure = reason;
  }
}

/** What `getUserMedia` threw, in our words. */
export function microphoneFailure(error: unknown): Failure {
  const { name, message } = error as Partial<Error>;
  switch (name) {
    case "NotAllowedError":
    case "SecurityError":
      return failure("microphone-denied");
    case "NotFoundError":
    case "OverconstrainedError":
      return failure("microphone-missing");
    case "NotReadableError":
    case "AbortError":
      return failure("microphone-busy");
    default:
      return failure("unexpected", message);
  }
}
