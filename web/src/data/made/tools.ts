// Made by build_tools/web_sources.py; do not edit.

/** Short name of a tool → its name. */
export const SHORT_NAMES: ReadonlyMap<string, string> = new Map([
  ["overview", "overview_page"],
  ["input", "input_pipeline_analyzer"],
  ["input_pipeline", "input_pipeline_analyzer"],
  ["ops", "framework_op_stats"],
  ["tensorflow_stats", "framework_op_stats"],
  ["kernels", "kernel_stats"],
  ["gpu_kernel_stats", "kernel_stats"],
  ["roofline", "roofline_model"],
  ["memory", "memory_profile"],
  ["pod", "pod_viewer"],
  ["trace", "trace_viewer"],
  ["trace_viewer@", "trace_viewer"],
  ["tfdata", "tf_data_bottleneck_analysis"],
  ["tf_data", "tf_data_bottleneck_analysis"],
  ["inference", "inference_profile"],
  ["model", "model_views"],
]);
