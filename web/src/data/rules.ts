// Made by build_tools/web_sources.py; do not edit.

/** Rule → pages where the numbers behind it stand. */
export const RULE_PAGES: Record<string, string[]> = {
  "input.bound": ["input", "tfdata"],
  "launch.delay": ["overview", "kernels"],
  "amp.share": ["kernels"],
};
