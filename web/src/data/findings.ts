// Findings as the server gives them: the record, and the words for it.
import type { Doubt, Profile, Unavailable } from "./client";

export interface Action {
  cause: string;
  framework: string;
  text: string;
  env: string | null;
  code: string | null;
}

export interface Finding {
  id: string;
  title: string;
  stage: number;
  status: "fail" | "pass" | "cannot_tell" | "not_applicable";
  severity: string;
  confidence: number;
  value: number | null;
  unit: string;
  share_percent: number | null;
  ms_per_step: number | null;
  threshold: Record<string, unknown> | null;
  steps_hit: number | null;
  steps_clean: number | null;
  devices: string[];
  causes: { cause: string; share_percent: number }[];
  facts: { name: string; value: number | null; unit: string; note: string | null }[];
  evidence: {
    host: string;
    device: number | null;
    track: string | null;
    start_ps: number | string;
    end_ps: number | string;
    ops: string[];
  }[];
  inputs: string[];
  unavailable: Unavailable | null;
  confirm: string | null;
  refute: string | null;
  saving_ms: { low: number; high: number } | null;
  actions: Action[];
  words: {
    headline: string | null;
    reasons: string | string[] | null;
    gain: string | null;
    standing: string | null;
    evidence: string[] | null;
    /** Those of the frameworks that the profile shows. */
    actions: Action[];
  };
}

export interface FindingsAnswer {
  profile: Profile;
  quality: Doubt[];
  frameworks: string[];
  findings: Finding[];
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
