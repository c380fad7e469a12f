"""Comparison of two runs, in sentences and as an outline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.catalogue import OWNER_WORDS
from stepscope.report.outline.parts import Bullets, Heading, Paragraph, Table, outlined
from stepscope.report.outline.promises import promise_lines
from stepscope.report.words.names import CATEGORY_NAMES, join_words, ms, percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepscope.compare.changes import Change
    from stepscope.compare.comparison import Comparison
    from stepscope.compare.parity import Check
    from stepscope.compare.synthetic import SyntheticInput
    from stepscope.report.outline.parts import Part

#: Minimum change of an op or kernel to be shown, as a share of the base step. Chance is
#: not known for ops and kernels, so smaller changes are in the JSON only.
LEAST_SHARE: Final = 0.001
#: Maximum number of owners that explain a change; minimum percentage of each.
_MOST_OWNERS: Final = 3
_LEAST_PERCENT: Final = 5.0
_TOPICS: Final = {
    "devices": "devices",
    "steps": "steps",
    "batch": "batch size",
    "model": "model variables",
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
#: Increase of the step time, in percent, from which on it is written as a factor.
_MANY_PERCENT: Final = 200.0
_VOUCHED: Final = (
    "Both runs count as the same work because of --same-work; the recordings do not "
    "prove it."
)
#: Minimum overlap of two runs that is rounded to 100 %.
_ALL: Final = 0.995
#: Kind of change of an op or a kernel → words for several such changes.
_BECAME: Final = {
    "appeared": "appeared",
    "vanished": "vanished",
    "slowed": "slowed down",
    "quickened": "became quicker",
}


def verdict_sentence(found: Comparison) -> str:
    """Write in one sentence how the step time changed."""
    time = found.step_time
    if time is None:
        why = found.parity.unavailable
        reason = why.reason if why is not None else found.missing[0].reason
        return f"Not comparable. {reason}"
    each = found.per
    interval = (
        f"95 % interval: {change_words(time.low_ms)} to {change_words(time.high_ms)}"
    )
    if time.verdict == "noise":
        return (
            f"No change beyond chance: a {each} takes {ms(time.new_ms)}, and took "
            f"{ms(time.base_ms)} before ({interval})."
        )
    than = f"than the {ms(time.base_ms)} before"
    if time.change_percent >= _MANY_PERCENT:
        than = f"{time.new_ms / time.base_ms:.1f} times the {ms(time.base_ms)} before"
    elif time.verdict == "faster":
        than = f"{percent(-time.change_percent)} less {than}"
    else:
        than = f"{percent(time.change_percent)} more {than}"
    return (
        f"A {each} takes {ms(time.new_ms)}, {than}: a change of "
        f"{change_words(time.change_ms)} ({interval})."
    )


def change_words(value: float) -> str:
    """Write a change in milliseconds with its sign, in a fitting unit."""
    if value == 0:
        return "0 ms"
    return f"{'+' if value > 0 else '−'}{ms(abs(value))}"


def explaining_sentences(found: Comparison) -> tuple[str, ...]:
    """Write what explains the change of the step time; empty without steps."""
    time = found.step_time
    if time is None:
        return ()
    told = []
    if time.verdict != "noise":
        certain = [one for one in found.owners or () if one.certain]
        told += list(_owner_sentences(certain))
    ops, kernels = found.ops or (), found.kernels or ()
    for what, changes in (
        ("Ops on the device", [one for one in ops if one.side == "device"]),
        ("Ops on the host", [one for one in ops if one.side == "host"]),
        ("Kernels", kernels),
    ):
        least = LEAST_SHARE * time.base_ms
        kinds = []
        for kind, words in _BECAME.items():
            sizes_ms = [
                change.change_ms
                for change in changes
                if change.kind == kind and abs(change.change_ms) >= least
            ]
            if sizes_ms:
                size = change_words(sum(sizes_ms))
                kinds.append(f"{len(sizes_ms):,} {words} ({size})")
        if kinds:
            told.append(f"{what}, per {found.per}: {join_words(kinds)}.")
    if found.parity.vouched:
        told.append(_VOUCHED)
    return tuple(told)


def _owner_sentences(changes: Sequence[Change]) -> Iterator[str]:
    for lead, sign in (("Largest causes", 1), ("Opposite changes", -1)):
        named = [
            f"{OWNER_WORDS[one.name]} {change_words(one.change_ms)} "
            f"({percent(abs(one.share_percent))} of the change)"
            for one in changes
            if one.share_percent is not None
            and sign * one.share_percent >= _LEAST_PERCENT
        ]
        if named:
            yield f"{lead}: {join_words(named[:_MOST_OWNERS])}."


def check_words(one: Check) -> str:
    """Write one check of whether both runs do the same work."""
    parts = []
    if one.overlap is not None:
        parts.append(f"{100 * one.overlap:.0f} % in common")
    if one.base is not None and one.new is not None:
        base, new = _grouped_digits(one.base), _grouped_digits(one.new)
        parts.append(base if base == new else f"base {base}, new {new}")
    if one.by is not None:
        parts.append(f"evidence: {_EVIDENCE.get(one.by, one.by)}")
    beside = f" ({'; '.join(parts)})" if parts else ""
    state: str = "unknown" if one.status == "unknown" else one.status
    if one.status == "same" and one.overlap is not None and one.overlap < _ALL:
        state = "almost the same"
    elif one.topic == "steps" and one.status == "same" and one.base != one.new:
        state = "enough in both"
    elif one.status == "differs" and one.topic != "batch":
        state = "differ"
    return f"{_TOPICS[one.topic]}: {state}{beside}"


def _grouped_digits(told: str) -> str:
    return f"{int(told):,}" if told.isdecimal() else told


_MOST_ROWS: Final = 10


@outlined
def comparison_outline(found: Comparison) -> Iterator[Part]:
    """Write the verdict, then whether the work is the same, then what changed."""
    parity = found.parity
    yield Heading(f"{found.new.run} against {found.base.run}", 1)
    yield Paragraph(verdict_sentence(found), strong=True)
    yield from _synthetic_parts(found.synthetic_input)
    yield from _run_parts(found)
    yield Heading("Do both runs do the same work?")
    yield Bullets(tuple(check_words(check) for check in parity.checks))
    if parity.unavailable is not None:
        yield Paragraph(f"{parity.unavailable.reason} {parity.unavailable.remedy}")
    elif parity.vouched:
        yield Paragraph(_VOUCHED)
    if sentences := explaining_sentences(found):
        yield Heading("What explains the change")
        yield Bullets(sentences)
    yield from _breakdown_parts(found)
    yield from _owner_parts(found)
    yield from _change_parts(found, "ops", "Which ops changed", "op")
    yield from _change_parts(found, "kernels", "Which kernels changed", "kernel")
    if found.findings:
        rows = tuple(
            (
                f"{change.id}: {change.title}",
                "known in one run" if change.change == "unknown" else change.change,
                _time_cell(change.base_ms),
                _time_cell(change.new_ms),
            )
            for change in found.findings
        )
        yield Heading("Findings")
        header = ("finding", "", "per step, base", "per step, new")
        yield Table(header, rows, frozenset({1}))
    if found.promises:
        yield Heading("Were the promised gains reached?")
        # The section on the same work already says why promises cannot be judged.
        lines = promise_lines(found.promises, found.per, reasons=parity.comparable)
        yield Bullets(tuple(lines))


def _synthetic_parts(found: SyntheticInput | None) -> Iterator[Part]:
    if found is None:
        return
    if found.share_percent is None:
        why = "" if found.unavailable is None else f" {found.unavailable.reason}"
        yield Paragraph(f"Cannot tell whether the base run waits for its input.{why}")
        return
    share = percent(found.share_percent) if found.share_percent > 0 else "no"
    limit = "" if found.threshold is None else f"{found.threshold.value:g} %"
    waits = "waits" if found.status == "fail" else "does not wait"
    text = (
        f"The base run {waits} for its input: its steps take {share} less time on "
        f"synthetic data (threshold: {limit})."
    )
    if found.copies_ms:
        left = ms(found.copies_ms)
        text += f" Exposed copies of batches remain: {left} a step."
    yield Paragraph(text)


def _run_parts(found: Comparison) -> Iterator[Part]:
    rows = tuple(
        (
            f"{label}: {one.run}",
            f"{one.steps:,}",
            _time_cell(one.mean_ms),
            _time_cell(one.median_ms),
            _time_cell(one.recording_ms),
        )
        for label, one in (("base", found.base), ("new", found.new))
    )
    header = ("run", "steps", f"mean {found.per}", "median", "recording")
    yield Table(header, rows)
    if found.base.recording_ms or found.new.recording_ms:
        yield Paragraph("All times exclude the time that the recording itself took.")


def _time_cell(value: float | None) -> str:
    if value is None:
        return "–"
    return ms(value) if value else "0 ms"


def _breakdown_parts(found: Comparison) -> Iterator[Part]:
    told = [one for one in found.breakdown or () if one.base_ms or one.new_ms]
    if not told:
        return
    yield Heading(f"The {found.per}'s time by category")
    rows = tuple(
        (
            CATEGORY_NAMES[one.name],
            _time_cell(one.base_ms),
            _time_cell(one.new_ms),
            change_words(one.change_ms) if one.certain else "by chance",
            _share_cell(one),
        )
        for one in told
    )
    yield Table(("category", "base", "new", "change", "share of change"), rows)


def _share_cell(one: Change) -> str:
    if one.share_percent is None or one.certain is False:
        return "–"
    size = percent(abs(one.share_percent))
    if one.share_percent >= 0:
        return size
    return f">−{size[1:]}" if size.startswith("<") else f"−{size}"


def _owner_parts(found: Comparison) -> Iterator[Part]:
    if not found.owners:
        return
    yield Heading(f"Change by owner, mean {found.per}")
    rows = tuple(
        (
            OWNER_WORDS[one.name],
            _time_cell(one.base_ms),
            _time_cell(one.new_ms),
            change_words(one.change_ms),
            f"{change_words(one.low_ms or 0.0)} to {change_words(one.high_ms or 0.0)}"
            if one.certain
            else "by chance",
            _share_cell(one),
        )
        for one in found.owners[:_MOST_ROWS]
    )
    header = ("owner", "base", "new", "change", "95 % interval", "share of change")
    yield Table(header, rows)


def _change_parts(
    found: Comparison, field: str, title: str, what: str
) -> Iterator[Part]:
    changes: Sequence[Change] | None = getattr(found, field)
    if changes is None:
        absent = next((one for one in found.missing if one.field == field), None)
        if found.step_time is not None and absent is not None:
            yield Heading(title)
            yield Paragraph(f"{absent.reason} {absent.remedy}")
        return
    whole = 0.0 if found.step_time is None else found.step_time.base_ms
    told = [one for one in changes if abs(one.change_ms) >= LEAST_SHARE * whole > 0]
    if not told:
        return
    yield Heading(f"{title}, mean {found.per}")
    rows = tuple(_change_row(one, what) for one in told[:_MOST_ROWS])
    beside = ("runs",) if what == "kernel" else ()
    header = (what, "base", "new", "change", "share of change", *beside)
    yield Table(header, rows)
    left = sum(bool(one.change_ms) for one in changes) - min(len(told), _MOST_ROWS)
    if left:
        yield Paragraph(f"--format json lists {left} smaller changes.")


def _change_row(one: Change, what: str) -> tuple[str, ...]:
    side = f" ({one.side})" if one.side else ""
    side += f" of {one.scope}" if one.scope else ""
    row = (
        f"{one.name}{side}",
        "new" if one.base_ms is None else ms(one.base_ms),
        "gone" if one.new_ms is None else ms(one.new_ms),
        change_words(one.change_ms),
        _share_cell(one),
    )
    if what != "kernel":
        return row
    return (*row, f"{one.base_runs or 0:.4g} → {one.new_runs or 0:.4g}")
