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

/** Sub-buckets by category, and their titles. */
export const DETAILS: Record<string, Record<string, string>> = {
  input: { host_wait: "waiting for a batch", h2d: "copying to the device" },
  other: { device_internal: "inside replayed graphs", sync: "synchronising", between_steps: "between steps", python: "Python", unattributed: "unexplained" },
};
