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
  { name: "device_collectives", title: "Device collectives", token: "collective", hatched: false, sentence: "Communication among devices that no computation covers." },
  { name: "device_to_device", title: "Device to device", token: "d2d", hatched: false, sentence: "Copies within and between devices, and memory being set." },
  { name: "output", title: "Output", token: "output", hatched: false, sentence: "Copies from the device to the host that nothing covers." },
  { name: "input", title: "Input", token: "input", hatched: false, sentence: "Waiting for input, and copies from the host to the device." },
  { name: "kernel_launch", title: "Kernel launch", token: "launch", hatched: false, sentence: "Launch calls, and launched work that has not begun." },
  { name: "host_compute", title: "Host compute", token: "host", hatched: false, sentence: "Work on the host while the device had none." },
  { name: "compilation", title: "Compilation", token: "compile", hatched: false, sentence: "Tracing and compiling while the device had no work." },
  { name: "other", title: "All others", token: "idle", hatched: false, sentence: "Time that no event explains, Python's overhead included." },
];

/** Owners told under their category, and their titles. */
export const DETAILS: Record<string, Record<string, string>> = {
  input: { input: "waiting for a batch or making it", copy_in: "copying to the device" },
  output: { output: "writing or waiting for results", copy_out: "copying from the device" },
  device_collectives: { collective: "collectives", peer: "waiting for other workers" },
  device_compute_32: { compute_32: "32-bit", compute_tf32: "TF32", compute_64: "64-bit" },
  device_to_device: { copy_within: "copies", memset: "setting memory", transfer_wait: "waiting for transfers" },
  other: { profiler: "the recording itself", switch: "switching between kernels", queued: "queued work that did not run", sync: "synchronising", between: "between steps", unexplained: "unexplained" },
};
