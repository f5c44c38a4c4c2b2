import { expect, it } from "vitest";

import { merge, type Segment } from "../src/transcript";

const segment = (id: string, text: string, final = false): Segment => ({
  id,
  speaker: "agent",
  text,
  final,
});

it("grows a segment in its place", () => {
  const spoken = merge(merge([], segment("a", "it is")), segment("b", "noon"));
  const grown = merge(spoken, segment("a", "it is half past", true));
  expect(grown.map(({ text }) => text)).toEqual(["it is half past", "noon"]);
  expect(grown[0]?.final).toBe(true);
});

it("leaves out a segment that says nothing", () => {
  expect(merge([], segment("a", "  "))).toEqual([]);
});
