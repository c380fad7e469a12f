// Made by build_tools/web_sources.py; do not edit.

/** Rule → pages where the numbers behind it stand. */
export const RULE_PAGES: Record<string, string[]> = {
  "input.bound": ["input_pipeline_analyzer", "tf_data_bottleneck_analysis"],
  "launch.delay": ["overview_page", "kernel_stats"],
  "amp.share": ["kernel_stats"],
};
