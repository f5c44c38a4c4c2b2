/** The words of the call as they come; follows the newest line unless the reader scrolled up. */

import { type ReactElement, useEffect, useRef } from "react";

import type { Transcript } from "../transcript";

/** Nearer to the end than this counts as reading along. */
const FOLLOW_PIXELS = 48;

export function TranscriptLog({ transcript }: { transcript: Transcript }): ReactElement {
  const log = useRef<HTMLDivElement>(null);
  const following = useRef(true);
  useEffect(() => {
    if (following.current && log.current !== null) {
      log.current.scrollTop = log.current.scrollHeight;
    }
  }, [transcript]);
  const noticeScroll = (): void => {
    const { scrollTop, scrollHeight, clientHeight } = log.current ?? document.body;
    following.current = scrollHeight - scrollTop - clientHeight < FOLLOW_PIXELS;
  };
  return (
    <section className="transcript" aria-label="Transcript">
      <div ref={log} className="log" role="log" aria-live="polite" onScroll={noticeScroll}>
        {transcript.length === 0 && <p className="hint">What the agent says appears here.</p>}
        {transcript.map(({ id, speaker, text, final }) => (
          <p key={id} className={`segment segment-${speaker}`} data-final={final}>
            <span className="speaker">{speaker === "you" ? "You" : "Agent"}</span>
            {text.trim()}
          </p>
        ))}
      </div>
    </section>
  );
}
