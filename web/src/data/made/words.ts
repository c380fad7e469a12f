// Made by build_tools/web_sources.py; do not edit.

/** Owner of time → what the time is. */
export const OWNERS: Record<string, string> = {
  "compute_16": "computing in 16 bit",
  "compute_tf32": "computing in TF32",
  "compute_32": "computing in 32 bit",
  "compute_64": "computing in 64 bit",
  "memset": "clearing memory",
  "collective": "communication",
  "copy_within": "copying on the device",
  "copy_out": "copying results back",
  "copy_in": "copying batches to the device",
  "transfer_wait": "waiting for transfers",
  "profiler": "the recording itself",
  "switch": "switching between activities",
  "queued": "idle with launched work waiting",
  "compile": "compilation",
  "peer": "waiting for other ranks",
  "input": "waiting for input",
  "output": "reading results back",
  "host_compute": "host compute",
  "launch": "waiting for launches",
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
  "launch": "inferred: repeated launches of one program",
  "period": "inferred: the work repeats",
};

/** Work on input → its title. */
export const INPUT_KINDS: Record<string, string> = {
  "demanded_file_read": "Reading on demand",
  "advanced_file_read": "Reading ahead",
  "preprocessing": "Preprocessing",
  "enqueue": "Sending to the device",
  "unclassified": "Not classified",
};
