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

/** Owners told under their category, and their titles. */
export const DETAILS: Record<string, Record<string, string>> = {
  compilation: { startup: "start-up", compile: "compilation" },
  input: { input: "waiting for input", copy_in: "copying batches to the device" },
  output: { output: "reading results back", copy_out: "copying results back" },
  device_collectives: { collective: "communication", peer: "waiting for peers in a collective" },
  device_to_device: { copy_within: "copying on the device", memset: "clearing memory", transfer_wait: "waiting for transfers" },
  device_compute_32: { compute_32: "computing in 32-bit precision", compute_tf32: "computing in TF32", compute_64: "computing in 64-bit precision", compute_unknown: "computing in unknown precision" },
  other: { profiler: "the profiler's own work", switch: "switching between activities", queued: "idle with launched work waiting", wait: "waiting", sync: "synchronising", between: "between steps", unexplained: "unexplained" },
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
