"""The first sentence of a report: about advice, memory or kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from stepscope.advice.catalogue import OWNER_TEXTS
from stepscope.patterns import Pattern
from stepscope.reporting.page import cut_middle
from stepscope.reporting.words.findings import lead_sentence
from stepscope.reporting.words.names import part_text, percent, plain_name
from stepscope.unavailable import Unavailable
from stepscope.units import bytes_text, duration_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepscope.advice.finding import Finding
    from stepscope.advice.headline import Lead
    from stepscope.analysis.memory_profile import MemoryProfileResult

#: Number at the end of a graph node's name; it distinguishes nodes of the same op.
_NUMBER: Final = Pattern(r"_\d+$")


def first_sentence(lead: Lead, findings: Sequence[Finding]) -> str:
    """Write the first sentence of a report."""
    if lead.kind == "finding":
        (finding,) = (check for check in findings if check.id == lead.finding)
        sentence = _name_place(lead_sentence(finding), lead if finding.owners else None)
        return _write_outside(lead) + sentence
    return _write_outside(lead) + _name_place(_time_sentence(lead), lead)


def _write_outside(lead: Lead) -> str:
    """Write what a recording consists of besides its few steps; empty if not known."""
    rest = lead.outside
    if rest is None:
        return ""
    part = rest.part
    is_main = part is not None and 2 * part.share_percent >= rest.percent
    return (
        f"The steps are only {percent(rest.steps_percent)} of the recording; "
        f"{percent(rest.percent)} is {OWNER_TEXTS[rest.owner]}"
        f"{f', mostly {part_text(part)}' if part and is_main else ''}. "
    )


def _name_place(sentence: str, lead: Lead | None) -> str:
    """Add the host or device that a sentence is about if the run has several."""
    if lead is None or lead.host is None:
        return sentence
    if lead.hosts > 1:
        where = f"{lead.host}, one of {lead.hosts} hosts"
    elif lead.devices > 1 and lead.device is not None:
        where = f"device {lead.device}, one of {lead.devices} busy devices"
    else:
        return sentence
    return f"{sentence.removesuffix('.')} ({where})."


def _time_sentence(lead: Lead) -> str:
    if lead.percent is None or lead.owner is None:
        why = lead.unavailable
        reason = "" if why is None else f" {why.reason} {why.remedy}"
        return f"There is no time to explain.{reason}"
    size = percent(lead.percent)
    reference = "the step" if lead.has_steps else "the recording"
    if lead.owner == "between":
        # Time between steps is not part of a step, so "of the step" would be false.
        reference = "the time"
    if lead.kind == "device":
        return f"Compute-bound: the device is busy {size} of {reference}."
    what = OWNER_TEXTS[lead.owner]
    if lead.kind == "host" and not lead.has_steps and _is_function(lead):
        # The recording does not show whether the functions compute or wait.
        what = "time in functions of the program"
    subject = f"{what}{_part_names(lead)}"
    if lead.kind == "idle" and lead.owner == "compile" and not lead.has_steps:
        # The first call of a function cannot be distinguished from later retracing.
        return (
            f"{size} of {reference} is {subject}: a recording of later steps shows "
            "whether this repeats."
        )
    if lead.kind == "idle" and not _is_function(lead):
        return f"{size} of {reference} is {subject}, and no check explains this time."
    if lead.kind in {"host", "idle"}:
        return f"{size} of {reference} is {subject}."
    return f"The largest part of {reference}, {size}, is {subject}."


def _is_function(lead: Lead) -> bool:
    return bool(lead.parts) and lead.parts[0].function is not None


def _part_names(lead: Lead) -> str:
    if not lead.parts:
        return ""
    largest, caller = lead.parts[0], lead.caller
    name = plain_name(_NUMBER.sub("", largest.name.rpartition("/")[2]))
    if largest.function is not None:
        name = part_text(largest)
    size = percent(largest.share_percent)
    whole = None if lead.percent is None else percent(lead.percent)
    if lead.percent is None or largest.share_percent >= lead.percent / 2:
        # An op is named together with the function of the program that called the op.
        if caller is not None and largest.function is None:
            name += f" in {part_text(caller)}"
        # The share of an op, unless it is all of the time.
        of_op = lead.kind == "host" and largest.function is None
        share = f" ({size})" if of_op and size != whole else ""
        return f", mostly {name}{share}"
    if caller is not None and caller.function != largest.function:
        return f", mostly in {part_text(caller)}: the largest part is {name} ({size})"
    return f", the largest part of it {name} ({size})"


#: If more memory has no known line, the line with the most memory is named only if it
#: has at least this share of the memory, in percent.
_MIN_LINE_PERCENT: Final = 10.0
#: Region type of memory that contains the code of a compiled program.
_CODE: Final = "executable"


def peak_sentence(result: MemoryProfileResult | Unavailable) -> str | None:
    """Write the peak of the fullest memory, and the program line that holds most of it.

    Returns:
        None if no memory's use is known.
    """
    if isinstance(result, Unavailable):
        return None
    known = result.rows.drop_nulls("peak_bytes").sort("peak_bytes", descending=True)
    if known.is_empty():
        return None
    all_rows = known.rows(named=True)
    programs = {
        row["memory_id"]
        for row in all_rows
        if (
            set(result.memories[row["memory_id"]].breakdown["region_type"].to_list())
            == {_CODE}
        )
    }
    # Memories that contain only compiled code come last.
    fullest = min(all_rows, key=lambda row: row["memory_id"] in programs)
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
    largest = lines.row(0, named=True)
    share = largest["share_percent"]
    nameless = float(held.filter(held["source"].is_null())["share_percent"].sum())
    if share is not None and share < min(_MIN_LINE_PERCENT, nameless):
        return f"{peak}; {percent(nameless)} of it has no known program line."
    of_it = "" if share is None else f" ({percent(share)})"
    size = bytes_text(largest["allocation_bytes"])
    # Memory without a known line is mentioned only if it exceeds the named line's.
    more = nameless > (share or 0.0)
    remainder = f", and {percent(nameless)} has no known program line" if more else ""
    return f"{peak}; {size} of it{of_it} is in {what} {largest['source']}{remainder}."


#: Maximum length of a kernel's name, in characters.
_MAX_NAME_LENGTH: Final = 60


def measured_sentence(tables: Sequence[pl.DataFrame | Unavailable]) -> str | None:
    """Write the kernel with the most measured time, and its shares of the peak rates.

    Args:
        tables: The table `kernel_metrics` of each host.

    Returns:
        None if no duration was measured.
    """
    known = [table for table in tables if not isinstance(table, Unavailable)]
    rows = pl.concat(known).filter(pl.col("duration_ps") > 0) if known else None
    if rows is None or rows.is_empty():
        return None
    total_ps = int(rows["duration_ps"].sum())
    by_name = rows.group_by("kernel_name", maintain_order=True).agg(
        pl.len(), pl.col("duration_ps").sum()
    )
    largest = by_name.sort("duration_ps", descending=True).row(0, named=True)
    name = largest["kernel_name"]
    own_launches = rows.filter(pl.col("kernel_name") == name)
    longest = own_launches.sort("duration_ps", descending=True).row(0, named=True)
    which = "it" if len(own_launches) == 1 else "its longest launch"
    duration = (
        "" if len(own_launches) == 1 else f" ({duration_text(longest['duration_ps'])})"
    )
    reached = [
        f"{percent(value)} of the peak {what} rate"
        for column, what in (
            ("compute_percent", "compute"),
            ("memory_percent", "memory"),
        )
        if (value := longest[column]) is not None
    ]
    if reached and longest["memory_percent"] is not None:
        reached[-1] += memory_level_text(longest)
    rates = f"; {which}{duration} reaches {' and '.join(reached)}" if reached else ""
    launches = f"{rows.height:,} measured launch{'' if rows.height == 1 else 'es'}"
    return (
        f"The kernel {cut_middle(plain_name(name), _MAX_NAME_LENGTH)} takes "
        f"{percent(100 * largest['duration_ps'] / total_ps)} of the "
        f"{duration_text(total_ps)} of {launches}{rates}."
    )


#: Name of a level of memory → column of its throughput.
_LEVELS: Final = {"DRAM": "dram_percent", "L2": "l2_percent", "L1": "l1_percent"}


def memory_level_text(launch: Mapping[str, Any]) -> str:
    """Write which level is the busiest, and how busy the device's memory is."""
    known = {
        name: launch[column] for name, column in _LEVELS.items() if launch.get(column)
    }
    if len(known) < len(_LEVELS):
        return ""
    level = max(known, key=known.__getitem__)
    dram = "" if level == "DRAM" else f"; DRAM {percent(known['DRAM'])}"
    return f" ({level}{dram})"
