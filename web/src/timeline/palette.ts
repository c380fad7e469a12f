// Colours of the canvas: the page's own, read again when the theme changes.
import { categoryNamed } from "../charts/categories";
import { colour } from "../state/theme";
import type { Palette } from "./raster";
import { SHADES } from "./tiles";

const TOKENS = ["page", "panel", "line", "ink", "muted", "accent", "warn", "stripe"] as const;
type Tokens = Record<(typeof TOKENS)[number], string>;

export interface Colours extends Tokens {
  /** By category and shade, for the raster. */
  fills: Palette;
  /** By category, for outlines. */
  edges: string[];
  /** Colour of a text on a category. */
  texts: string[];
  /** Categories whose spans are hatched. */
  hatched: boolean[];
}

/** Names of one category differ in lightness by this much at most. */
const SPREAD = 0.06;

export function colours(categories: string[]): Colours {
  const known = categories.map(categoryNamed);
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
    ...(Object.fromEntries(TOKENS.map((token) => [token, colour(token)])) as Tokens),
  };
}

/** A colour #rrggbb as 0xBBGGRR, lighter or darker. */
export function shaded(hex: string, factor: number): number {
  const part = (at: number) => Math.min(Math.round(parseInt(hex.slice(at, at + 2), 16) * factor), 255);
  return (part(5) << 16) | (part(3) << 8) | part(1);
}
