// The pages, in the order of the navigation. A page is added by one file and one line here.
import type { ComponentType } from "preact";

import { Findings } from "./findings";
import { Inference } from "./inference";
import { InputPipeline } from "./input";
import { Kernels } from "./kernels";
import { Memory } from "./memory";
import { Model } from "./model";
import { Ops } from "./ops";
import { Overview } from "./overview";
import { Pod } from "./pod";
import { TfData } from "./tfdata";

export interface Page {
  name: string;
  title: string;
  group: "Summary" | "Time" | "Memory" | "Cluster";
  view: ComponentType;
}

export const PAGES: Page[] = [
  { name: "findings", title: "Findings", group: "Summary", view: Findings },
  { name: "overview", title: "Overview", group: "Summary", view: Overview },
  { name: "ops", title: "Op stats", group: "Time", view: Ops },
  { name: "kernels", title: "Kernels", group: "Time", view: Kernels },
  { name: "input", title: "Input pipeline", group: "Time", view: InputPipeline },
  { name: "tfdata", title: "tf.data", group: "Time", view: TfData },
  { name: "model", title: "Model views", group: "Time", view: Model },
  { name: "inference", title: "Inference", group: "Time", view: Inference },
  { name: "memory", title: "Memory profile", group: "Memory", view: Memory },
  { name: "pod", title: "Pod viewer", group: "Cluster", view: Pod },
];
