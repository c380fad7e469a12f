// Made by build_tools/web_sources.py; do not edit.

/** Rule → pages where the numbers behind it stand. */
export const RULE_PAGES: Record<string, string[]> = {
  "capture.quality": ["overview_page", "trace_viewer"],
  "input.bound": ["input_pipeline_analyzer", "tf_data_bottleneck_analysis"],
  "gaps.between": ["overview_page", "trace_viewer"],
  "host.work": ["overview_page", "framework_op_stats"],
  "launch.delay": ["overview_page", "kernel_stats"],
  "tc.unused": ["kernel_stats"],
  "tc.dims": ["kernel_stats", "framework_op_stats"],
  "fuse.runs": ["kernel_stats", "trace_viewer"],
  "layout.transpose": ["kernel_stats"],
  "op.hot": ["framework_op_stats", "kernel_stats"],
  "amp.share": ["kernel_stats"],
  "amp.fallback": ["kernel_stats"],
  "amp.cast": ["kernel_stats", "framework_op_stats"],
  "amp.softmax": ["kernel_stats"],
  "allreduce.count": ["pod_viewer", "kernel_stats"],
  "multi.balance": ["pod_viewer", "kernel_stats"],
  "multi.sequential": ["pod_viewer", "trace_viewer"],
  "allreduce.time": ["pod_viewer", "overview_page"],
  "comm.exposed": ["pod_viewer", "kernel_stats"],
  "allreduce.arrival": ["pod_viewer"],
  "multi.stagger": ["pod_viewer", "trace_viewer"],
};
