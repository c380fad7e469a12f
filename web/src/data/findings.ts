// Findings as the server gives them: the record, and the words for it.
import type { Action, CheckedStage, Doubt, Finding, Headline, Profile } from "./made/types";

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
    headline: string;
    reasons: string | null;
    /** The largest named parts of the effect. */
    names: string | null;
    /** How the effect is spread over the steps. */
    pattern: string | null;
    /** Whose time it is. */
    owners: string[];
    gain: string | null;
    standing: string | null;
    evidence: Place[];
    /** Tools that show the numbers that the rule rests on. */
    pages: string[];
    /** Those of the frameworks that the profile shows. */
    actions: Action[];
  };
}

/** A stage of the checklist, in one line. */
export interface ToldStage extends CheckedStage {
  line: string;
  fails: boolean;
}

export interface FindingsAnswer {
  profile: Profile;
  quality: Doubt[];
  frameworks: string[];
  headline: Headline;
  /** Ids of those to look at first. */
  first: string[];
  /** The stages that have checks, in the order of the guides. */
  stages: ToldStage[];
  findings: ToldFinding[];
}

export const STATUS_WORDS: Record<Finding["status"], string> = {
  fail: "Fail",
  pass: "Pass",
  cannot_tell: "Cannot tell",
  not_applicable: "Not applicable",
};
export const STATUS_SIGNS: Record<Finding["status"], string> = {
  fail: "✗",
  pass: "✓",
  cannot_tell: "?",
  not_applicable: "–",
};
