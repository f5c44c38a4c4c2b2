/** Data messages of the agent on the topic `personaplex`: JSON objects with a `type`. */

export const DATA_TOPIC = "personaplex";

export type AgentMessage =
  | { readonly type: "stats"; readonly figures: Readonly<Record<string, number>> }
  | {
      readonly type: "refused" | "closed";
      /** Why, for programs; empty where nothing is wrong. */
      readonly code: string;
      readonly message: string;
    };

/** The message, or null for one that this page has no use for. */
export function parseMessage(payload: Uint8Array): AgentMessage | null {
  let body: unknown;
  try {
    body = JSON.parse(new TextDecoder().decode(payload));
  } catch {
    return null;
  }
  if (typeof body !== "object" || body === null) {
    return null;
  }
  const fields = body as Record<string, unknown>;
  switch (fields["type"]) {
    case "stats":
      return { type: "stats", figures: numbersOf(fields) };
    case "state":
      return ending(fields);
    default:
      return null;
  }
}

/** All numbers in `fields`, nested ones as `outer.inner`. */
function numbersOf(fields: Record<string, unknown>, prefix = ""): Record<string, number> {
  const found: Record<string, number> = {};
  for (const [name, value] of Object.entries(fields)) {
    if (typeof value === "number") {
      found[prefix + name] = value;
    } else if (typeof value === "object" && value !== null) {
      Object.assign(found, numbersOf(value as Record<string, unknown>, `${prefix}${name}.`));
    }
  }
  return found;
}

/** A state that ends the call; the others arrive as an attribute of the agent. */
function ending({ state, code, message }: Record<string, unknown>): AgentMessage | null {
  if (state !== "refused" && state !== "closed") {
    return null;
  }
  return { type: state, code: textOf(code), message: textOf(message) };
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}
