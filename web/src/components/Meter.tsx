/** One side of the call: a name, what it is doing, and the sound of its track as moving bars. */

import { type ReactElement, type RefObject, useEffect, useRef } from "react";

import { LevelTap, type LevelReading, SILENT } from "../level";

interface MeterProps {
  readonly name: string;
  readonly caption: string;
  readonly side: "you" | "agent";
  readonly track: MediaStreamTrack | null;
}

const READ_ALOUD_EVERY_MS = 500;

export function Meter({ name, caption, side, track }: MeterProps): ReactElement {
  const meter = useRef<HTMLDivElement>(null);
  useLevels(track, meter);
  return (
    <div className={`meter meter-${side}`} data-live={track !== null}>
      <div
        ref={meter}
        className="bars"
        role="meter"
        aria-label={`${name}: level`}
        aria-valuemin={-60}
        aria-valuemax={0}
        aria-valuenow={SILENT.dbfs}
      >
        {SILENT.bands.map((_, band) => (
          <span key={band} />
        ))}
      </div>
      <h2>{name}</h2>
      <p className="caption" aria-live="polite">
        {caption}
      </p>
    </div>
  );
}

/** Bars are written to the DOM directly: sixty renders a second would be React's work for nothing. */
function useLevels(track: MediaStreamTrack | null, meter: RefObject<HTMLDivElement | null>): void {
  useEffect(() => {
    const element = meter.current;
    if (track === null || element === null) {
      return undefined;
    }
    const context = new AudioContext();
    const tap = new LevelTap(context, track);
    let readAloud = 0;
    const draw = (now: number): void => {
      const reading = tap.read();
      show(element, reading);
      if (now >= readAloud) {
        readAloud = now + READ_ALOUD_EVERY_MS;
        element.setAttribute("aria-valuenow", reading.dbfs.toFixed(0));
      }
      frame = requestAnimationFrame(draw);
    };
    let frame = requestAnimationFrame(draw);
    return () => {
      cancelAnimationFrame(frame);
      tap.close();
      void context.close();
      show(element, SILENT);
      element.setAttribute("aria-valuenow", SILENT.dbfs.toFixed(0));
    };
  }, [track, meter]);
}

/** Low bands stand in the middle and high ones on both sides, as a voice looks best. */
function show(meter: HTMLElement, { bands }: LevelReading): void {
  const bars = Array.from(meter.children) as HTMLElement[];
  const middle = bars.length / 2;
  bars.forEach((bar, at) => {
    const distance = at < middle ? middle - 1 - at : at - middle;
    bar.style.setProperty("--level", (bands[distance * 2] ?? 0).toFixed(3));
  });
}
