"""What became of the step's time from one run to another, in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.words import OWNER_WORDS
from stepscope.report.words.names import listed, ms, percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepscope.compare.changes import Change
    from stepscope.compare.comparison import Comparison
    from stepscope.compare.parity import Check

#: Of ops and kernels it is not known what changes by chance: smaller parts of a step
#: are left to JSON.
LEAST_SHARE: Final = 0.001
#: Owners that explain a change, and the share of it from which on they are named.
_MOST_OWNERS: Final = 3
_LEAST_PERCENT: Final = 5.0
_TOPICS: Final = {
    "devices": "devices",
    "steps": "steps",
    "batch": "size of a batch",
    "model": "variables of the model",
    "kernels": "kernels of a step",
    "ops": "ops of a step",
}
_EVIDENCE: Final = {
    "operands": "sizes of operands",
    "launches": "launch shapes of kernels",
    "programs": "inputs of compiled programs",
    "pipeline": "stages of the input pipeline",
    "copies": "bytes copied to the device",
    "marker": "the program's markers",
    "device_line": "the stored step line",
    "stored_call": "the call stored as a step",
    "launch": "repeated launches",
    "period": "repetition",
}
#: From here on a factor reads better than percents.
_MANY_PERCENT: Final = 200.0
_STATES: Final = {"same": "same", "differs": "differs", "unknown": "not known"}
#: A share that reads as 100 %.
_ALL: Final = 0.995
#: How an op or a kernel changed → the words for several of them.
_BECAME: Final = {
    "appeared": "appeared",
    "vanished": "vanished",
    "slowed": "slowed down",
    "quickened": "became quicker",
}


def verdict(found: Comparison) -> str:
    """Write in one sentence what became of the step's time."""
    time = found.step_time
    if time is None:
        why = found.parity.unavailable
        reason = why.reason if why is not None else found.missing[0].reason
        return f"Not comparable. {reason}"
    each = found.per
    interval = (
        f"95 % interval {change_words(time.low_ms)} to {change_words(time.high_ms)}"
    )
    if time.verdict == "noise":
        return (
            f"No change beyond chance: a {each} takes {ms(time.new_ms)}, before "
            f"{ms(time.base_ms)} ({interval})."
        )
    than = f"than {ms(time.base_ms)} before"
    if time.change_percent >= _MANY_PERCENT:
        than = f"{time.new_ms / time.base_ms:.1f} times the {ms(time.base_ms)} before"
    elif time.verdict == "faster":
        than = f"{percent(-time.change_percent)} shorter {than}"
    else:
        than = f"{percent(time.change_percent)} longer {than}"
    return (
        f"A {each} takes {ms(time.new_ms)}, {than}: {change_words(time.change_ms)} "
        f"({interval})."
    )


def change_words(value: float) -> str:
    """Write milliseconds with a sign, in a fitting unit."""
    if value == 0:
        return "0 ms"
    return f"{'+' if value > 0 else '−'}{ms(abs(value))}"


def explaining(found: Comparison) -> tuple[str, ...]:
    """Write what explains the change of the step; nothing where there is none."""
    time = found.step_time
    if time is None:
        return ()
    told = []
    if time.verdict != "noise":
        certain = [one for one in found.owners or () if one.certain]
        told += list(_owners(certain))
    ops, kernels = found.ops or (), found.kernels or ()
    for what, changes in (
        ("ops on the device", [one for one in ops if one.side == "device"]),
        ("ops on the host", [one for one in ops if one.side == "host"]),
        ("kernels", kernels),
    ):
        least = LEAST_SHARE * time.base_ms
        kinds = list(_kinds([it for it in changes if abs(it.change_ms) >= least]))
        if kinds:
            told.append(f"Of {what}, {listed(kinds)} a {found.per}.")
    if found.parity.vouched:
        told.append(
            "The recordings do not prove that the work is the same; it was stated "
            "(--same-work)."
        )
    return tuple(told)


def _owners(changes: Sequence[Change]) -> Iterator[str]:
    """Write which owners made the change, and which worked against it."""
    for lead, sign in (("Most of it is", 1), ("Against it works", -1)):
        named = [
            f"{OWNER_WORDS[one.name]} {change_words(one.change_ms)} "
            f"({percent(abs(one.share_percent))} of the change)"
            for one in changes
            if one.share_percent is not None
            and sign * one.share_percent >= _LEAST_PERCENT
        ]
        if named:
            yield f"{lead} {listed(named[:_MOST_OWNERS])}."


def _kinds(changes: Sequence[Change]) -> Iterator[str]:
    for kind, words in _BECAME.items():
        mine = [one.change_ms for one in changes if one.kind == kind]
        if mine:
            yield f"{len(mine):,} {words} ({change_words(sum(mine))})"


def check_words(one: Check) -> str:
    """Write one look at whether both runs do the same work."""
    parts = []
    if one.overlap is not None:
        parts.append(f"{100 * one.overlap:.0f} % in common")
    if one.base is not None and one.new is not None:
        base, new = _grouped(one.base), _grouped(one.new)
        parts.append(base if base == new else f"base {base}, new {new}")
    if one.by is not None:
        parts.append(f"seen from {_EVIDENCE.get(one.by, one.by)}")
    beside = f" ({'; '.join(parts)})" if parts else ""
    state = _STATES[one.status]
    if one.status == "same" and one.overlap is not None and one.overlap < _ALL:
        state = "much the same"
    elif one.topic == "steps" and one.status == "same" and one.base != one.new:
        state = "enough in both"
    elif one.status == "differs" and one.topic != "batch":
        state = "differ"
    return f"{_TOPICS[one.topic]}: {state}{beside}"


def _grouped(told: str) -> str:
    """Write a count as all pages do; other texts stay."""
    return f"{int(told):,}" if told.isdecimal() else told
