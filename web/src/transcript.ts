/** The transcript as a list of segments, merged by segment id from any number of text streams. */

export interface Segment {
  readonly id: string;
  readonly speaker: "agent" | "you";
  readonly text: string;
  readonly final: boolean;
}

export type Transcript = readonly Segment[];

/** Replace the segment of the same id in its place, or append it. Blank segments are left out. */
export function merge(transcript: Transcript, segment: Segment): Transcript {
  const at = transcript.findIndex((known) => known.id === segment.id);
  if (at >= 0) {
    return transcript.with(at, segment);
  }
  return segment.text.trim() === "" ? transcript : [...transcript, segment];
}
