// Texts on spans: measured once, cut where the room ends.

export const FONT = '11px system-ui, "Segoe UI", "Noto Sans", sans-serif';
const MOST_KEPT = 20_000;
const DOTS = "…";

/** What measures a text in pixels; a canvas in the page, anything in a test. */
export type Measure = (text: string) => number;

export class Labels {
  private readonly widths = new Map<string, number>();

  constructor(private readonly measure: Measure) {}

  width(text: string): number {
    let known = this.widths.get(text);
    if (known === undefined) {
      if (this.widths.size > MOST_KEPT) this.widths.clear();
      known = this.measure(text);
      this.widths.set(text, known);
    }
    return known;
  }

  /** As much of a text as the room allows; empty where not even three letters fit. */
  fitted(text: string, room: number): string {
    const width = this.width(text);
    if (width <= room) return text;
    const letters = Math.floor((text.length * (room - this.width(DOTS))) / width);
    return letters < 3 ? "" : text.slice(0, letters) + DOTS;
  }
}

export function onCanvas(context: CanvasRenderingContext2D): Measure {
  return (text) => {
    context.font = FONT;
    return context.measureText(text).width;
  };
}
