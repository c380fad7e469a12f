"""Names and numbers of results in the words of the guides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.patterns import UNNAMED_NAMESPACE, Pattern
from stepscope.units import PS_PER_MS, PS_PER_US, duration_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.derive.facts.evidence import Part

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
#: What ties the clocks of hosts together, and what follows from it.
CLOCK_WORDS: Final = {
    "collectives": "Their clocks are laid side by side by the collectives that they "
    "leave together",
    "recorded": "Their clocks are compared by the times that the hosts recorded; "
    "nothing shows how well these agree",
    "steps": "Their clocks are laid side by side by the steps that they share: begins "
    "can be compared to within a step",
    "none": "Nothing ties their clocks together: begins are not compared",
}
#: Shares below by no more than rounding are all.
_ALL: Final = 100 - 1e-6
#: What Python calls the code of a file outside of its functions.
MODULE: Final = "<module>"
#: A call as Python's tracers name it.
_FRAME: Final = Pattern(r"\$(?P<place>[^ /\\]+\.py:\d+) (?P<function>\S+)\Z")
#: How names of C++ functions begin that include their arguments.
_CPP: Final = Pattern(r"void |[A-Za-z_][\w:]*<")
#: Kinds of work that the host does on input, in the words of the guides.
INPUT_CATEGORY_NAMES: Final = {
    "demanded_file_read": "Reading on demand",
    "advanced_file_read": "Reading ahead",
    "preprocessing": "Preprocessing",
    "enqueue": "Sending to the device",
    "unclassified": "Not classified",
}
#: What a column of input ops may name instead.
_INPUT_CODES: Final = INPUT_CATEGORY_NAMES | {
    "waiting_for_workers": "Waiting for worker processes"
}
#: What a thing to do for the input is about → its title.
INPUT_STEP_NAMES: Final = _INPUT_CODES | {
    "outside_markers": "Iterator outside the markers",
    "not_recorded": "Before a batch is copied",
}
#: What worker processes do → what is said of it.
WORKER_STATES: Final = {
    "works": "Other work",
    "hands_over": "Handing over what was made",
    "waits_for_work": "Waiting for work",
}
#: Kind of a part of the account → what is written before its name.
PART_WORDS: Final = {"dispatch": "dispatch of", "launch call": "launch calls of"}
SOURCE_WORDS: Final = {
    "marker": "from the program's step markers",
    "device_line": "from the stored step line of the device",
    "stored_call": "from the call that the producer stored as a step",
    "launch": "inferred: repeated launches of one program",
    "period": "inferred: the work repeats",
}
#: Units that compute, as the roofline names them.
UNIT_NAMES: Final = {
    "fp32": "Vector lanes, 32-bit",
    "fp16": "Vector lanes, 16-bit",
    "matrix_tf32": "Matrix units, TF32",
    "matrix_fp16": "Matrix units, 16-bit",
    "all": "All units",
    "given": "Given as an option",
}
#: How well the blocks of a kernel can fill its device.
FILL_WORDS: Final = {
    "full": "full",
    "small_grid": "too few blocks",
    "low_occupancy": "low occupancy",
    "unknown": "not known",
}
#: Column of a table → what its codes are called.
CODE_WORDS: Final = {
    "bottleneck": CATEGORY_NAMES,
    "category": _INPUT_CODES,
    "evidence": {"shapes": "shapes and bytes", "unknown": "not known"},
    "fill": FILL_WORDS,
    # What NVIDIA's rules are.
    "kind": {"OPT": "optimization", "INF": "information", "WRN": "warning"},
    "match": {
        "one_op": "only op that launches it",
        "order": "order of the launches",
        "cycle": "order, in a cycle",
        "shared": "mean over several ops",
    },
    "occupancy_limiter": {"shared_memory": "shared memory"},
    "precision_evidence": {
        "name": "name of the kernel",
        "hlo": "types in the HLO",
        "shape": "types of the operands",
        "default": "nothing: taken as 32",
    },
    "slowest_by": {
        "collectives": "the others waited for it in collectives",
        "device_work": "its device worked longest",
        "step_time": "its step took longest",
    },
    "source": {"data_sheet": "data sheet", "given": "given as an option"},
    "state": WORKER_STATES | {"works": "Working"},
    "speedup_kind": {"global": "of the kernel", "local": "of a part of it"},
    "tensor_core_evidence": {
        "name": "name of the kernel",
        "name_unconfirmed": "name, not confirmed by a counter",
    },
    "unit": UNIT_NAMES,
}


def ms(value: float) -> str:
    """Write milliseconds in a fitting unit."""
    return duration_text(value * PS_PER_MS)


def us(value: float) -> str:
    """Write microseconds in a fitting unit."""
    return duration_text(value * PS_PER_US)


def range_ms(low: float, high: float) -> str:
    """Write a range in one unit: `13.4 to 26.7 ms`, `up to 26.7 ms` from nothing on.

    What is less than a hundredth of the range's end is nothing.
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
    """Write a share in percent: never as 0 what is some, nor as 100 what is not all."""
    if 0 < value < 0.1:
        return "<0.1 %"
    if 99.95 <= value < _ALL:
        return ">99.9 %"
    return f"{value:.1f} %"


def plain_name(name: str) -> str:
    """Write a function as people do: with its file after it, and without arguments.

    A C++ function loses its result, its template's arguments and its own.
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
    """Make a sentence of a text: with a capital and a full stop."""
    return text[:1].upper() + text[1:].rstrip(".") + "."


def join_words(names: Sequence[str]) -> str:
    """Join texts: `a, b and c`."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


#: Heading of where the time of a step went …
STEP_TIME: Final = "Where the step time went"
#: … and of where it went in a recording without steps.
_RECORDED_TIME: Final = "Where the recorded time went"


def time_heading(window: str) -> str:
    """Return the heading of a breakdown: of the steps, or of all that was recorded."""
    return STEP_TIME if window == "steps" else _RECORDED_TIME


def part_words(part: Part) -> str:
    """Write a name with its file and line."""
    name = f"`{part.name}`" if part.function is not None else plain_name(part.name)
    if part.name == MODULE:
        name = "the top level"
    if part.file is not None:
        place = part.file.replace("\\", "/").rpartition("/")[2]
        # Where a module begins says nothing of one of its variables.
        is_variable = part.function == MODULE != part.name
        at = "" if part.line is None or is_variable else f":{part.line}"
        if part.lines is not None:
            first, last = part.lines
            at = f", line {first}" if first == last else f", lines {first} to {last}"
            at += "" if part.detail is None else f", mostly {part.detail}"
        name += f" ({place}{at})"
    if part.function is not None and part.lines is None and part.detail is not None:
        is_line = part.detail.startswith("line ")
        name += f", most of it in {part.detail if is_line else f'`{part.detail}`'}"
    if part.thread is not None:
        name += f" on thread `{part.thread}`"
    return name
