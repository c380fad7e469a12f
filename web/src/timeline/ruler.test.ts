import { expect, it } from "vitest";

import { Labels } from "./labels";
import type { Colours } from "./palette";
import { drawRuler } from "./ruler";

/** What is written on a ruler of 300 ms, each letter six pixels wide, and where. */
function written(width: number): [string, number][] {
  const texts: [string, number][] = [];
  const canvas = new Proxy({} as CanvasRenderingContext2D, {
    get: (_, name) => (name === "fillText" ? (text: string, x: number) => texts.push([text, x]) : () => undefined),
    set: () => true,
  });
  const what = { steps: [], marks: [], chosen: null, origin: 0 };
  drawRuler(canvas, { begin: 0, end: 305e9, width }, what, {} as Colours, new Labels((text) => 6 * text.length));
  return texts;
}

it("writes each time whole, before its line where the edge would cut it", () => {
  const texts = written(1000);
  expect(texts.map(([text]) => text).slice(-2)).toEqual(["250 ms", "300 ms"]);
  for (const [text, x] of texts) expect(x + 6 * text.length).toBeLessThanOrEqual(1000);
});
