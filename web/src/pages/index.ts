// The pages, in the order of the navigation. A page is added by one file and one line here.
import type { ComponentType } from "preact";

import { Compare } from "./compare";
import { Findings } from "./findings";
import { FrameworkOpStats } from "./framework_op_stats";
import { InferenceProfile } from "./inference_profile";
import { InputPipelineAnalyzer } from "./input_pipeline_analyzer";
import { KernelStats } from "./kernel_stats";
import { MemoryProfile } from "./memory_profile";
import { ModelViews } from "./model_views";
import { OverviewPage } from "./overview_page";
import { PodViewer } from "./pod_viewer";
import { RooflineModel } from "./roofline_model";
import { TfDataBottleneckAnalysis } from "./tf_data_bottleneck_analysis";
import type { TITLES } from "../parts/titles";
import { TraceViewer } from "./trace_viewer";

export interface Page {
  /** Name of the page's tool, or `findings`, or `compare`. */
  name: keyof typeof TITLES;
  group: "Summary" | "Time" | "Memory" | "Cluster";
  view: ComponentType;
}

export const PAGES: Page[] = [
  { name: "findings", group: "Summary", view: Findings },
  { name: "overview_page", group: "Summary", view: OverviewPage },
  { name: "trace_viewer", group: "Time", view: TraceViewer },
  { name: "framework_op_stats", group: "Time", view: FrameworkOpStats },
  { name: "kernel_stats", group: "Time", view: KernelStats },
  { name: "roofline_model", group: "Time", view: RooflineModel },
  { name: "input_pipeline_analyzer", group: "Time", view: InputPipelineAnalyzer },
  { name: "tf_data_bottleneck_analysis", group: "Time", view: TfDataBottleneckAnalysis },
  { name: "model_views", group: "Time", view: ModelViews },
  { name: "inference_profile", group: "Time", view: InferenceProfile },
  { name: "memory_profile", group: "Memory", view: MemoryProfile },
  { name: "pod_viewer", group: "Cluster", view: PodViewer },
  { name: "compare", group: "Summary", view: Compare },
];
