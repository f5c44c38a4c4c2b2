/** Asks for the key that the worker wants, then connects with it. */

import { type ReactElement, type SyntheticEvent, useState } from "react";

import type { Call } from "../call";
import { keepKey } from "../key";

export function KeyForm({ call }: { call: Call }): ReactElement {
  const [key, setKey] = useState("");
  const submit = (event: SyntheticEvent): void => {
    event.preventDefault();
    keepKey(key);
    void call.connect();
  };
  return (
    <form className="key" onSubmit={submit}>
      <label>
        Key
        <input
          type="password"
          autoComplete="off"
          required
          value={key}
          onChange={(event) => {
            setKey(event.target.value);
          }}
        />
      </label>
      <button type="submit">Use this key</button>
    </form>
  );
}
