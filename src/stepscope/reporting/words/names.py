"""Names and numbers of results, in the terms of the guides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.patterns import UNNAMED_NAMESPACE, Pattern
from stepscope.units import PS_PER_MS, PS_PER_US, duration_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.derive.facts.evidence import Part

#: Why a gain may be larger than its range.
UNKNOWN_SPEED: Final = "the computing speed after the change cannot be predicted"
#: The ten categories in display order (docs/glossary.md#the-ten-categories).
CATEGORY_NAMES: Final = {
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
}
#: How the clocks of hosts are aligned → sentence on which times are comparable.
CLOCK_TEXTS: Final = {
    "collectives": "Their clocks are aligned by collectives, which end at the same "
    "time on all hosts",
    "recorded": "Their clocks are used as recorded; the error of these clocks is not "
    "known",
    "steps": "Their clocks are aligned by common steps: start times can be compared "
    "to within a step",
    "none": "Their clocks cannot be aligned: start times are not compared",
}
#: Minimum percentage that counts as 100 %: the difference is a rounding error.
_MIN_WHOLE_PERCENT: Final = 100 - 1e-6
#: Python's name for the code of a module outside of functions.
MODULE: Final = "<module>"
#: Name of a call as Python's tracers record it.
_FRAME: Final = Pattern(r"\$(?P<place>[^ /\\]+\.py:\d+) (?P<function>\S+)\Z")
#: Start of a C++ function name with arguments.
_CPP: Final = Pattern(r"void |[A-Za-z_][\w:]*<")
#: Category of host work on input → its title, in the terms of the guides.
INPUT_CATEGORY_NAMES: Final = {
    "demanded_file_read": "Reading on demand",
    "advanced_file_read": "Reading ahead",
    "preprocessing": "Preprocessing",
    "enqueue": "Sending to the device",
    "unclassified": "Not classified",
}
#: Category of an input op → its title.
_INPUT_CODES: Final = INPUT_CATEGORY_NAMES | {
    "waiting_for_workers": "Waiting for worker processes"
}
#: Category of advice on input → its title.
INPUT_STEP_NAMES: Final = _INPUT_CODES | {
    "outside_markers": "Iterator outside the markers",
    "not_recorded": "Before a batch is copied",
}
#: State of a worker process → its words.
WORKER_STATES: Final = {
    "works": "Other work",
    "hands_over": "Handing over batches",
    "waits_for_work": "Waiting for work",
}
#: Kind of named time → words before the name.
PART_PREFIXES: Final = {"dispatch": "dispatch of", "launch call": "launch calls of"}
SOURCE_TEXTS: Final = {
    "marker": "from the program's step markers",
    "device_line": "from the stored step line of the device",
    "stored_call": "from the call that the producer stored as a step",
    "launch": "inferred: repeated launches of one program",
    "period": "inferred: the work repeats",
}
#: Compute unit of the roofline → its name.
UNIT_NAMES: Final = {
    "fp32": "Vector lanes, 32-bit",
    "fp16": "Vector lanes, 16-bit",
    "matrix_tf32": "Matrix units, TF32",
    "matrix_fp16": "Matrix units, 16-bit",
    "all": "All units",
    "given": "Given as an option",
}
#: How well the blocks of a kernel fill its device → words.
FILL_TEXTS: Final = {
    "full": "full",
    "small_grid": "too few blocks",
    "low_occupancy": "low occupancy",
    "unknown": "not known",
}
#: Column of a table → code → words shown instead.
CODE_TEXTS: Final = {
    "bottleneck": CATEGORY_NAMES,
    "category": _INPUT_CODES,
    "evidence": {"shapes": "shapes and bytes", "unknown": "not known"},
    "fill": FILL_TEXTS,
    # Kinds of messages that NVIDIA's rules write.
    "kind": {"OPT": "optimization", "INF": "information", "WRN": "warning"},
    "match": {
        "one_op": "only op that launches the kernel",
        "order": "order of the launches",
        "cycle": "order, in a cycle",
        "shared": "mean over several ops",
    },
    "occupancy_limiter": {"shared_memory": "shared memory"},
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
    "source": {"data_sheet": "data sheet", "given": "given as an option"},
    "state": WORKER_STATES | {"works": "Working"},
    "speedup_kind": {"global": "of the kernel", "local": "of a part of the kernel"},
    "tensor_core_evidence": {
        "name": "name of the kernel",
        "name_unconfirmed": "name of the kernel, not confirmed by counters",
    },
    "unit": UNIT_NAMES,
}


def ms(value: float) -> str:
    """Write milliseconds as a duration in a fitting unit."""
    return duration_text(value * PS_PER_MS)


def us(value: float) -> str:
    """Write microseconds as a duration in a fitting unit."""
    return duration_text(value * PS_PER_US)


def range_ms(low: float, high: float) -> str:
    """Write a range in one unit: `13.4 to 26.7 ms`, or `up to 26.7 ms` from 0 on.

    A lower end below a hundredth of the upper end counts as zero.
    """
    if low < high / 100:
        return f"up to {ms(high)}"
    first, last = ms(low), ms(high)
    if first == last:
        return first
    if first.rpartition(" ")[2] == last.rpartition(" ")[2]:
        return f"{first.rpartition(' ')[0]} to {last}"
    return f"{first} to {last}"


def percent(value: float) -> str:
    """Write a share in percent; only exactly zero is written as 0, only all as 100."""
    if 0 < value < 0.1:
        return "<0.1 %"
    if 99.95 <= value < _MIN_WHOLE_PERCENT:
        return ">99.9 %"
    return f"{value:.1f} %"


def plain_name(name: str) -> str:
    """Write a function's name without arguments; a Python function's file follows.

    The result type and template arguments of a C++ function are removed as well.
    """
    frame = _FRAME.match(name)
    if frame is not None:
        return f"{frame['function']} ({frame['place']})"
    if not _CPP.match(name):
        return name
    bare = UNNAMED_NAMESPACE.sub("", name.removeprefix("void "))
    kept, depth = [], 0
    for letter in bare:
        depth += letter == "<"
        if depth == 0:
            kept.append(letter)
        depth -= letter == ">" and depth > 0
    return "".join(kept).partition("(")[0].strip() or name


def as_sentence(text: str) -> str:
    """Write a text with a capital and a full stop."""
    return text[:1].upper() + text[1:].rstrip(".") + "."


def join_phrases(names: Sequence[str]) -> str:
    """Join texts as `a, b and c`."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


#: Heading of the breakdown of the steps.
STEP_TIME: Final = "Where the step time went"
#: Heading of the breakdown of a recording without steps.
_RECORDED_TIME: Final = "Where the recorded time went"


def time_heading(window: str) -> str:
    """Return the heading of a breakdown of the steps or of the whole recording."""
    return STEP_TIME if window == "steps" else _RECORDED_TIME


def part_text(part: Part) -> str:
    """Write a name with its file and line."""
    name = f"`{part.name}`" if part.function is not None else plain_name(part.name)
    if part.name == MODULE:
        name = "the top level"
    detail = part.detail
    if detail is not None and not detail.startswith("line "):
        detail = f"`{detail}`"
    if part.file is not None:
        place = part.file.replace("\\", "/").rpartition("/")[2]
        # For a variable of a module, the module's first line is not useful.
        is_variable = part.function == MODULE != part.name
        lines = "" if part.line is None or is_variable else f":{part.line}"
        if part.lines is not None:
            first, last = part.lines
            lines = f", line {first}" if first == last else f", lines {first} to {last}"
            lines += "" if detail is None else f", mostly {detail}"
        name += f" ({place}{lines})"
    if part.function is not None and part.lines is None and detail is not None:
        name += f", most of it in {detail}"
    if part.thread is not None:
        name += f" on thread `{part.thread}`"
    return name
