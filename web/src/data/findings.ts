// Findings as the server gives them: the record, and the words for it.
import type { Action, Doubt, Finding, Profile } from "./made/types";

export interface ToldFinding extends Finding {
  words: {
    headline: string;
    reasons: string | null;
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
