// The whole recording in a strip: what ran when, and the window, which the pointer moves.
import { colour, painted } from "../state/theme";
import type { Scene } from "./scene";
import { paint, Strip } from "./raster";
import { colours } from "./palette";
import { Tiles, type Tile } from "./tiles";
import { levelOf, panned, toPs, toX, whole, type Extent, type Viewport } from "./viewport";

/** Tracks that stand for the recording: of each section, the one with the most events. */
const MOST_TRACKS = 4;
const HEIGHT = 28;

export class Minimap {
  private readonly tiles: Tiles<Tile>;
  private readonly tracks: number[];
  /** The strips, drawn once; the window is drawn over them. */
  private readonly strips = document.createElement("canvas");

  constructor(private readonly scene: Scene, private readonly canvas: HTMLCanvasElement, signal: AbortSignal) {
    const { sections, tracks, coarsest_level } = scene.catalogue;
    this.tracks = sections
      .filter((each) => each.kind !== "counters")
      .map((each) => each.tracks.reduce((most, track) => (tracks[track]!.drawn > tracks[most]!.drawn ? track : most)))
      .slice(0, MOST_TRACKS);
    this.tiles = new Tiles(scene.sources.spans, coarsest_level, () => this.draw());
    const follow = (view: Extent) => this.frame(view);
    scene.followers.add(follow);
    const unpainted = painted.subscribe(() => this.draw());
    signal.addEventListener("abort", () => {
      scene.followers.delete(follow);
      unpainted();
      this.tiles.close();
    });
    let held: { x: number; view: Extent } | null = null;
    const on = (name: "pointerdown" | "pointermove" | "pointerup", does: (event: PointerEvent) => void) => canvas.addEventListener(name, does, { signal });
    on("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      const { begin, end } = scene.view;
      const at = toPs(this.view, event.offsetX);
      // Beside the window it comes to the pointer; on it, it is dragged.
      if (at < begin || at > end) scene.look(panned(scene.view, at - (begin + end) / 2, scene.extent), { glide: false });
      held = { x: event.offsetX, view: scene.view };
    });
    on("pointermove", (event) => {
      if (held) scene.look(panned(held.view, toPs(this.view, event.offsetX) - toPs(this.view, held.x), scene.extent), { glide: false });
    });
    on("pointerup", () => (held = null));
  }

  private get view(): Viewport {
    return { ...whole(this.scene.extent), width: this.canvas.clientWidth };
  }

  /** Draw the strips anew. */
  private draw(): void {
    const { view, canvas } = this;
    if (view.width === 0) return;
    canvas.width = view.width;
    canvas.height = HEIGHT;
    const level = levelOf(view, 1, this.scene.catalogue.coarsest_level);
    this.tiles.want(this.tracks, view, level);
    const image = new ImageData(view.width, this.tracks.length || 1);
    const pixels = new Uint32Array(image.data.buffer);
    const { fills } = colours(this.scene.catalogue.categories);
    this.tracks.forEach((track, place) => {
      const strip = new Strip(view.width);
      strip.clear();
      paint(strip, this.tiles.pieces(track, view, level), 0, view, 1, null, Infinity, () => {});
      strip.write(pixels, place * view.width, fills);
    });
    this.strips.width = image.width;
    this.strips.height = image.height;
    this.strips.getContext("2d")!.putImageData(image, 0, 0);
    this.frame(this.scene.view);
  }

  /** Draw the window. */
  private frame({ begin, end }: Extent): void {
    const { view, canvas, strips } = this;
    if (strips.width !== view.width) {
      this.draw();
      return;
    }
    const context = canvas.getContext("2d")!;
    context.clearRect(0, 0, canvas.width, HEIGHT);
    context.imageSmoothingEnabled = false;
    context.drawImage(strips, 0, 0, canvas.width, HEIGHT);
    const [x0, x1] = [toX(view, begin), Math.max(toX(view, end), toX(view, begin) + 2)];
    context.fillStyle = colour("page");
    context.globalAlpha = 0.7;
    context.fillRect(0, 0, x0, HEIGHT);
    context.fillRect(x1, 0, canvas.width, HEIGHT);
    context.globalAlpha = 1;
    context.strokeStyle = colour("accent");
    context.strokeRect(Math.max(x0, 0) + 0.5, 0.5, Math.min(x1, canvas.width) - Math.max(x0, 0) - 1, HEIGHT - 1);
  }
}
