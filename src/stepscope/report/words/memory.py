"""The peak of the fullest memory, in one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.report.words.names import percent
from stepscope.unavailable import Unavailable
from stepscope.units import bytes_text

if TYPE_CHECKING:
    from stepscope.analysis.memory_profile import MemoryProfileResult

#: A line with less says nothing of a memory of which most is of no known line.
_LEAST_PERCENT: Final = 10.0
#: What the code of a compiled program is called among what a memory holds.
_CODE: Final = "executable"


def peak_sentence(result: MemoryProfileResult | Unavailable) -> str | None:
    """Write how full a memory became, and which line of the program holds most then.

    Returns:
        None where no use of any memory is known.
    """
    if isinstance(result, Unavailable):
        return None
    known = result.rows.drop_nulls("peak_bytes").sort("peak_bytes", descending=True)
    if known.is_empty():
        return None
    every = known.rows(named=True)
    programs = {it["memory_id"] for it in every if _is_code(result, it["memory_id"])}
    # What a program keeps comes before the code of its programs.
    fullest = min(every, key=lambda it: it["memory_id"] in programs)
    name = fullest["memory_id"]
    memory, size = result.memories[name], bytes_text(fullest["peak_bytes"])
    what = "programs compiled for" if name in programs else "tensors of"
    peak = f"The memory {name} peaks at {size}"
    if memory.level == "one_instant":
        peak = f"The memory {name} held {size} when the profile was saved"
    held = memory.lines
    lines = held.drop_nulls("source")
    if lines.is_empty():
        return f"{peak}."
    most = lines.row(0, named=True)
    share = most["share_percent"]
    unknown = held.filter(held["source"].is_null())
    nameless = float(unknown["share_percent"].sum())
    if share is not None and share < min(_LEAST_PERCENT, nameless):
        return f"{peak}; of {percent(nameless)} of it no line of the program is known."
    of_it = "" if share is None else f" ({percent(share)})"
    size = bytes_text(most["allocation_bytes"])
    # What no line is known of may be the larger part.
    more = nameless > (share or 0.0)
    rest = f", and {percent(nameless)} of no known line" if more else ""
    return f"{peak}; {size} of it{of_it} in {what} {most['source']}{rest}."


def _is_code(result: MemoryProfileResult, name: str) -> bool:
    """Return whether a memory holds nothing but the code of compiled programs."""
    return set(result.memories[name].breakdown["region_type"].to_list()) == {_CODE}
