// Colours of the canvas: the page's own, read again when the theme changes.
import { CATEGORIES } from "../data/made/categories";
import { colour } from "../state/theme";
import type { Palette } from "./raster";
import { SHADES } from "./tiles";

export interface Colours {
  /** By category and shade, for the raster. */
  fills: Palette;
  /** By category, for outlines. */
  edges: string[];
  /** Colour of a text on a category. */
  texts: string[];
  /** Categories whose spans are hatched. */
  hatched: boolean[];
  page: string;
  panel: string;
  line: string;
  ink: string;
  muted: string;
  accent: string;
  warn: string;
  stripe: string;
}

/** Names of one category differ in lightness by this much at most. */
const SPREAD = 0.06;

export function colours(categories: string[]): Colours {
  const known = categories.map((name) => CATEGORIES.find((each) => each.name === name));
  const tokens = known.map((each) => each?.token ?? "idle");
  const fills = new Uint32Array(categories.length * SHADES);
  tokens.forEach((token, category) => {
    for (let shade = 0; shade < SHADES; shade++) {
      const factor = 1 + SPREAD * ((2 * shade) / (SHADES - 1) - 1);
      fills[category * SHADES + shade] = shaded(colour(token), factor);
    }
  });
  return {
    fills,
    edges: tokens.map(colour),
    texts: tokens.map((token) => colour(`on-${token}`)),
    hatched: known.map((each) => each?.hatched ?? false),
    page: colour("page"),
    panel: colour("panel"),
    line: colour("line"),
    ink: colour("ink"),
    muted: colour("muted"),
    accent: colour("accent"),
    warn: colour("warn"),
    stripe: colour("stripe"),
  };
}

/** A colour #rrggbb as 0xBBGGRR, lighter or darker. */
export function shaded(hex: string, factor: number): number {
  const part = (at: number) => Math.min(Math.round(parseInt(hex.slice(at, at + 2), 16) * factor), 255);
  return (part(5) << 16) | (part(3) << 8) | part(1);
}
