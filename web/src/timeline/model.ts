// Sections, tracks and their place on the screen.

export interface Track {
  track: number;
  section: number;
  name: string;
  /** Number of its spans that are drawn. */
  drawn: number;
  rows: number;
  /** Rows without those of bookkeeping. */
  drawn_rows: number;
  /** Holds bookkeeping, which is shown on request. */
  folded: boolean;
  counter: boolean;
  /** Of a counter: its unit, and its range over the whole trace. */
  unit?: string | null;
  least?: number | null;
  greatest?: number | null;
}
export interface Section {
  name: string;
  kind: string;
  label: string | null;
  device: number | null;
  tracks: number[];
  collapsed: boolean;
}
export interface Step {
  number: number | null;
  start_ps: number;
  end_ps: number | null;
  outlier: boolean;
}
export interface Catalogue {
  /** Of the run and the program: with it answers never change. */
  version: string;
  host: string;
  hosts: string[];
  /** Whether the run can be drawn beside another one. */
  light: boolean;
  begin_ps: number | null;
  end_ps: number | null;
  coarsest_level: number;
  categories: string[];
  /** Who may own time, and how that is called. */
  owners: { name: string; words: string }[];
  sections: Section[];
  tracks: Track[];
  steps: Step[];
}

/** What the reader arranged, as differences from what the server proposes. */
export interface Arrangement {
  /** Sections (`s0`) and tracks (`t7`) that are not as they begin. */
  toggled: Set<string>;
  pinned: number[];
  hidden: Set<number>;
  /** Text, in lower case, in the names of tracks or of their section; "" for all. */
  named: string;
}

export interface Lane {
  key: string;
  section: number;
  /** Absent in the heading of a section. */
  track?: Track;
  y: number;
  height: number;
  /** Rows that are drawn. */
  rows: number;
  open: boolean;
  pinned: boolean;
}
export interface Layout {
  lanes: Lane[];
  /** Height of the pinned lanes, which stay on top. */
  pinned: number;
  height: number;
}

export const ROW = 20;
const PADDING = 2;
export const HEADING = 26;
export const COUNTER = 44;

export function heightOf(track: Track, rows: number): number {
  return track.counter ? COUNTER : rows * ROW + 2 * PADDING;
}

/** Where row `row` of a lane begins. */
export function rowY(lane: Lane, row: number): number {
  return lane.y + PADDING + row * ROW;
}

/** Lanes from top to bottom: pinned ones, then section by section. */
export function layout(catalogue: Catalogue, as: Arrangement): Layout {
  const lanes: Lane[] = [];
  let y = 0;
  const put = (key: string, section: number, track: Track | undefined, pinned: boolean, open = !as.toggled.has(`t${track?.track}`)) => {
    const rows = track ? (open ? Math.max(rowsOf(track), 1) : 1) : 0;
    const height = track ? heightOf(track, rows) : HEADING;
    lanes.push({ key, section, ...(track && { track }), y, height, rows, open, pinned });
    y += height;
  };
  const pinned = as.pinned.map((number) => catalogue.tracks[number]).filter((each) => each !== undefined);
  for (const track of pinned) put(`p${track.track}`, track.section, track, true);
  const top = y;
  catalogue.sections.forEach((section, number) => {
    const isNamed = (name: string) => name.toLowerCase().includes(as.named);
    const tracks = section.tracks.filter((each) => !as.hidden.has(each) && !as.pinned.includes(each) && (isNamed(section.name) || isNamed(catalogue.tracks[each]!.name)));
    if (tracks.length === 0) return;
    const open = as.named !== "" || section.collapsed === as.toggled.has(`s${number}`);
    put(`s${number}`, number, undefined, false, open);
    if (!open) return;
    for (const each of tracks) {
      const track = catalogue.tracks[each];
      if (track) put(`t${each}`, number, track, false);
    }
  });
  return { lanes, pinned: top, height: y };
}

/** Lanes of tracks that are seen between two heights of the content below the pinned ones. */
export function visible(of: Layout, scrolled: number, height: number): Lane[] {
  return of.lanes.filter(
    (lane) => lane.track && (lane.pinned || (lane.y + lane.height > of.pinned + scrolled && lane.y < scrolled + height)),
  );
}

/** Bookkeeping is hidden until it is asked for, and then shown with all its rows. */
export function isBookkeeping(track: Track): boolean {
  return !track.counter && (track.folded || track.drawn_rows === 0);
}

export function rowsOf(track: Track): number {
  return isBookkeeping(track) ? track.rows : track.drawn_rows;
}

/** The tracks of a catalogue that hold bookkeeping. */
export function hiddenAtFirst(catalogue: Catalogue): number[] {
  return catalogue.tracks.filter(isBookkeeping).map((each) => each.track);
}

/** What is added to times of another run so that the step at a moment begins where the same step begins above. */
export function stepShift(above: Pick<Catalogue, "steps" | "begin_ps">, below: Pick<Catalogue, "steps" | "begin_ps">, at: number): number {
  const last = Math.min(above.steps.length, below.steps.length) - 1;
  if (last < 0) return (above.begin_ps ?? 0) - (below.begin_ps ?? 0);
  const now = above.steps.filter((each) => each.start_ps <= at).length - 1;
  const step = Math.min(Math.max(now, 0), last);
  return above.steps[step]!.start_ps - below.steps[step]!.start_ps;
}
