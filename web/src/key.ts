/**
 * The key that the worker may ask for. It comes in the address's fragment, which browsers send to no
 * server, or from a form; it is kept until the tab is closed.
 */

const STORED_AS = "personaplex-key";

export function apiKey(): string {
  return sessionStorage.getItem(STORED_AS) ?? "";
}

export function keepKey(key: string): void {
  sessionStorage.setItem(STORED_AS, key.trim());
}

export function forgetKey(): void {
  sessionStorage.removeItem(STORED_AS);
}

/** Keep the key of `#key=…` and take it out of the address, where others could read it. */
export function takeKeyFromAddress(): void {
  // A plus sign is one here: only forms write it for a space.
  const fields = new URLSearchParams(location.hash.slice(1).replaceAll("+", "%2B"));
  const key = fields.get("key");
  if (key !== null) {
    keepKey(key);
    history.replaceState(null, "", location.pathname + location.search);
  }
}
