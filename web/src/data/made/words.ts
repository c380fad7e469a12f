// Made by build_tools/web_sources.py; do not edit.

/** Owner of time → what the time is. */
export const OWNERS: Record<string, string> = {
  "startup": "start-up",
  "compile": "compilation",
  "input": "waiting for input",
  "copy_in": "copying batches to the device",
  "output": "reading results back",
  "copy_out": "copying results back",
  "launch": "waiting for launches",
  "host_compute": "host compute",
  "collective": "communication",
  "peer": "waiting for peers in a collective",
  "copy_within": "copying on the device",
  "memset": "clearing memory",
  "transfer_wait": "waiting for transfers",
  "compute_16": "computing in 16-bit precision",
  "compute_32": "computing in 32-bit precision",
  "compute_tf32": "computing in TF32",
  "compute_64": "computing in 64-bit precision",
  "compute_unknown": "computing in unknown precision",
  "profiler": "the profiler's own work",
  "switch": "switching between activities",
  "queued": "idle with launched work waiting",
  "wait": "waiting",
  "sync": "synchronising",
  "between": "between steps",
  "unexplained": "unexplained",
};

/** Kind of a part → what stands before its name. */
export const PART_WORDS: Record<string, string> = {
  "dispatch": "dispatch of",
  "launch call": "launch calls of",
};

/** Source of the steps → where they come from. */
export const SOURCES: Record<string, string> = {
  "marker": "from the program's step markers",
  "device_line": "from the stored step line of the device",
  "stored_call": "from the call that the producer stored as a step",
  "launch": "inferred: repeated launches of one program",
  "period": "inferred: the work repeats",
};

/** What ties the clocks of hosts → what follows. */
export const CLOCKS: Record<string, string> = {
  "collectives": "Their clocks are aligned by collectives, which end at the same time on all hosts",
  "recorded": "Their clocks are used as recorded; the error of these clocks is not known",
  "steps": "Their clocks are aligned by common steps: start times can be compared to within a step",
  "none": "Their clocks cannot be aligned: start times are not compared",
};

/** Work on input → its title. */
export const INPUT_KINDS: Record<string, string> = {
  "demanded_file_read": "Reading on demand",
  "advanced_file_read": "Reading ahead",
  "preprocessing": "Preprocessing",
  "enqueue": "Sending to the device",
  "unclassified": "Not classified",
};

/** What to do for it is about → its title. */
export const INPUT_STEPS: Record<string, string> = {
  "demanded_file_read": "Reading on demand",
  "advanced_file_read": "Reading ahead",
  "preprocessing": "Preprocessing",
  "enqueue": "Sending to the device",
  "unclassified": "Not classified",
  "waiting_for_workers": "Waiting for worker processes",
  "outside_markers": "Iterator outside the markers",
  "not_recorded": "Before a batch is copied",
};

/** Column of a table → code → its title. */
export const CODES: Record<string, Record<string, string>> = {
  "bottleneck": {
    "compilation": "Compilation",
    "input": "Input",
    "output": "Output",
    "kernel_launch": "Kernel launch",
    "host_compute": "Host compute",
    "device_collectives": "Device collectives",
    "device_to_device": "Device to device",
    "device_compute_16": "Device compute, 16-bit",
    "device_compute_32": "Device compute, 32-bit",
    "other": "All others",
  },
  "category": {
    "demanded_file_read": "Reading on demand",
    "advanced_file_read": "Reading ahead",
    "preprocessing": "Preprocessing",
    "enqueue": "Sending to the device",
    "unclassified": "Not classified",
    "waiting_for_workers": "Waiting for worker processes",
  },
  "evidence": {
    "shapes": "shapes and bytes",
    "unknown": "not known",
  },
  "fill": {
    "full": "full",
    "small_grid": "too few blocks",
    "low_occupancy": "low occupancy",
    "unknown": "not known",
  },
  "kind": {
    "OPT": "optimization",
    "INF": "information",
    "WRN": "warning",
  },
  "match": {
    "one_op": "only op that launches the kernel",
    "order": "order of the launches",
    "cycle": "order, in a cycle",
    "shared": "mean over several ops",
  },
  "occupancy_limiter": {
    "shared_memory": "shared memory",
  },
  "precision_evidence": {
    "name": "name of the kernel",
    "hlo": "types in the HLO",
    "shape": "types of the operands",
    "default": "no source: 32-bit is assumed",
  },
  "slowest_by": {
    "collectives": "the other workers waited for it in collectives",
    "device_work": "its device worked longest",
    "step_time": "its step took longest",
  },
  "source": {
    "data_sheet": "data sheet",
    "given": "given as an option",
  },
  "state": {
    "works": "Working",
    "hands_over": "Handing over batches",
    "waits_for_work": "Waiting for work",
  },
  "speedup_kind": {
    "global": "of the kernel",
    "local": "of a part of the kernel",
  },
  "tensor_core_evidence": {
    "name": "name of the kernel",
    "name_unconfirmed": "name of the kernel, not confirmed by counters",
  },
  "unit": {
    "fp32": "Vector lanes, 32-bit",
    "fp16": "Vector lanes, 16-bit",
    "matrix_tf32": "Matrix units, TF32",
    "matrix_fp16": "Matrix units, 16-bit",
    "all": "All units",
    "given": "Given as an option",
  },
};
