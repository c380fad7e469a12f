// The pages, in the order of the navigation. A page is added by one file and one line here.
import type { ComponentType } from "preact";

import { Findings } from "./findings";
import { FrameworkOpStats } from "./framework_op_stats";
import { InferenceProfile } from "./inference_profile";
import { InputPipelineAnalyzer } from "./input_pipeline_analyzer";
import { KernelStats } from "./kernel_stats";
import { MemoryProfile } from "./memory_profile";
import { ModelViews } from "./model_views";
import { OverviewPage } from "./overview_page";
import { PodViewer } from "./pod_viewer";
import { TfDataBottleneckAnalysis } from "./tf_data_bottleneck_analysis";

export interface Page {
  /** That of its tool, or `findings`. */
  name: string;
  title: string;
  group: "Summary" | "Time" | "Memory" | "Cluster";
  view: ComponentType;
}

export const PAGES: Page[] = [
  { name: "findings", title: "Findings", group: "Summary", view: Findings },
  { name: "overview_page", title: "Overview", group: "Summary", view: OverviewPage },
  { name: "framework_op_stats", title: "Op stats", group: "Time", view: FrameworkOpStats },
  { name: "kernel_stats", title: "Kernels", group: "Time", view: KernelStats },
  { name: "input_pipeline_analyzer", title: "Input pipeline", group: "Time", view: InputPipelineAnalyzer },
  { name: "tf_data_bottleneck_analysis", title: "tf.data", group: "Time", view: TfDataBottleneckAnalysis },
  { name: "model_views", title: "Model views", group: "Time", view: ModelViews },
  { name: "inference_profile", title: "Inference", group: "Time", view: InferenceProfile },
  { name: "memory_profile", title: "Memory profile", group: "Memory", view: MemoryProfile },
  { name: "pod_viewer", title: "Pod viewer", group: "Cluster", view: PodViewer },
];
