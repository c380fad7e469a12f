// Made by build_tools/web_sources.py; do not edit.

export interface Category {
  name: string;
  title: string;
  token: string;
  hatched: boolean;
  sentence: string;
}

/** From the bottom of a column to its top. */
export const CATEGORIES: Category[] = [
  { name: "device_compute_32", title: "Device compute, 32-bit", token: "compute", hatched: false, sentence: "Kernels that compute in 32 bits or more." },
  { name: "device_compute_16", title: "Device compute, 16-bit", token: "compute", hatched: true, sentence: "Kernels that compute in 16 bits or fewer." },
  { name: "device_collectives", title: "Device collectives", token: "collective", hatched: false, sentence: "Communication between devices while the device computes nothing." },
  { name: "device_to_device", title: "Device to device", token: "d2d", hatched: false, sentence: "Copies within and between devices, and memsets." },
  { name: "output", title: "Output", token: "output", hatched: false, sentence: "Copies from the device to the host that overlap no other work." },
  { name: "input", title: "Input", token: "input", hatched: false, sentence: "Waiting for input, and copies from the host to the device." },
  { name: "kernel_launch", title: "Kernel launch", token: "launch", hatched: false, sentence: "Launch calls, and waiting until launched work begins." },
  { name: "host_compute", title: "Host compute", token: "host", hatched: false, sentence: "Work on the host while the device has no work." },
  { name: "compilation", title: "Compilation", token: "compile", hatched: false, sentence: "Tracing and compiling while the device has no work." },
  { name: "other", title: "All others", token: "idle", hatched: false, sentence: "All other time: gaps between steps, waiting, unexplained time." },
];

/** Owners told under their category. */
export const DETAILS: Record<string, string[]> = {
  compilation: ["startup", "compile"],
  input: ["input", "copy_in"],
  output: ["output", "copy_out"],
  device_collectives: ["collective", "peer"],
  device_to_device: ["copy_within", "memset", "transfer_wait"],
  device_compute_32: ["compute_32", "compute_tf32", "compute_64", "compute_unknown"],
  other: ["profiler", "switch", "queued", "wait", "sync", "between", "unexplained"],
};

/** Owner of time → its category. */
export const CATEGORY_OF: Record<string, string> = {
  startup: "compilation", compile: "compilation",
  input: "input", copy_in: "input",
  output: "output", copy_out: "output",
  launch: "kernel_launch",
  host_compute: "host_compute",
  collective: "device_collectives", peer: "device_collectives",
  copy_within: "device_to_device", memset: "device_to_device", transfer_wait: "device_to_device",
  compute_16: "device_compute_16",
  compute_32: "device_compute_32", compute_tf32: "device_compute_32", compute_64: "device_compute_32", compute_unknown: "device_compute_32",
  profiler: "other", switch: "other", queued: "other", wait: "other", sync: "other", between: "other", unexplained: "other",
};
