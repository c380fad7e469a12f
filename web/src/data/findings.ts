// Findings as the server gives them: the record, and the words for it.
import type { Action, Doubt, Finding, Headline, Profile } from "./made/types";

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
    evidence: string[];
    /** Those of the frameworks that the profile shows. */
    actions: Action[];
  };
}

export interface FindingsAnswer {
  profile: Profile;
  quality: Doubt[];
  frameworks: string[];
  headline: Headline;
  /** Ids of those to look at first. */
  first: string[];
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
