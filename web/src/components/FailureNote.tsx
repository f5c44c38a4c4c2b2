/** What went wrong, in words, announced to screen readers at once. */

import type { ReactElement } from "react";

import type { Failure } from "../failures";

export function FailureNote({ failure }: { failure: Failure }): ReactElement {
  return (
    <div className="failure" role="alert" data-code={failure.code}>
      <strong>{failure.title}</strong>
      <p>{failure.advice}</p>
    </div>
  );
}
