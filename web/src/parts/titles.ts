// What the navigation and links call each page.
export const TITLES = {
  findings: "Findings",
  compare: "Compare",
  overview_page: "Overview",
  trace_viewer: "Trace",
  framework_op_stats: "Op stats",
  kernel_stats: "Kernels",
  roofline_model: "Roofline",
  input_pipeline_analyzer: "Input pipeline",
  tf_data_bottleneck_analysis: "tf.data",
  model_views: "Model views",
  inference_profile: "Inference",
  memory_profile: "Memory profile",
  pod_viewer: "Pod viewer",
} as const;

/** The title of a page, by its name. */
export function titleOf(name: string): string {
  return (TITLES as Record<string, string>)[name] ?? name;
}

/** Whether there is such a page: not every tool has one. */
export function hasPage(name: string): boolean {
  return name in TITLES;
}
