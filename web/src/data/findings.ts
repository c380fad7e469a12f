// Findings as the server gives them: the record, and the words for it.
import type { Action, CheckedStage, Doubt, Finding, Headline, Profile, Unavailable } from "./made/types";

/** A range of the timeline, and where else it can be looked at. */
export interface Place {
  text: string;
  host: string;
  /** An op that the table of ops lists. */
  op: string | null;
  step: number | null;
  /** The span that shows it best; null where none does. */
  track: number | null;
  item: number | null;
  start_ps: number;
  dur_ps: number;
}

export interface ToldFinding extends Finding {
  words: {
    shown: ShownStatus;
    /** Pass or not, and a fail by its severity. */
    status: string;
    headline: string;
    /** How to know what the check cannot tell. */
    remedy: string | null;
    reasons: string | null;
    /** The largest named parts of the effect. */
    names: string | null;
    /** How the effect is spread over the steps. */
    pattern: string | null;
    /** Whose time it is. */
    owners: string[];
    gain: string | null;
    standing: string | null;
    threshold: string | null;
    /** Name, value, and what it was computed from. */
    numbers: [string, string, string][];
    evidence: Place[];
    /** Tools that show the numbers that the rule rests on. */
    pages: string[];
    /** Those of the frameworks that the profile shows, and the step after each. */
    actions: (Action & { then: string | null })[];
  };
}

/** A stage of the checklist, in one line. */
export interface ToldStage extends CheckedStage {
  line: string;
  /** The status of its gravest check. */
  worst: ShownStatus;
}

export interface Verdict {
  finding: string;
  label: string;
  /** What was found; empty where the headline says it. */
  found: string;
  /** What to do; empty where no change is known. */
  action: string;
  /** What it may save, in a few words; empty where that is unknown. */
  gain: string;
  promise: string;
  /** The change, to copy; empty where there is none. */
  code: string;
  place: Place | null;
  pages: string[];
}

export interface FindingsAnswer {
  profile: Profile;
  quality: Doubt[];
  headline: Headline;
  /** What to do, the most valuable first. */
  verdict: Verdict[];
  /** Where there is nothing to do: that no check failed, and how many passed. */
  nothing_to_fix: string | null;
  /** What these gain together, and what holds a step then; null where no replay can tell. */
  together: string | null;
  /** The stages that have checks, in the order of the guides. */
  stages: ToldStage[];
  findings: ToldFinding[];
  /** Tool → why it has nothing to show of this run. */
  absent: Record<string, Unavailable>;
}

export type ShownStatus = Finding["status"] | "note" | "unconfirmed";

export const STATUS_SIGNS: Record<ShownStatus, string> = {
  fail: "✗",
  pass: "✓",
  note: "•",
  unconfirmed: "○",
  cannot_tell: "?",
  not_applicable: "–",
};
