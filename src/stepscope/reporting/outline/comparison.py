"""Comparison of two runs, in sentences and as an outline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.catalogue import OWNER_TEXTS
from stepscope.reporting.outline.parts import (
    Bullets,
    Heading,
    Paragraph,
    Table,
    outlined,
)
from stepscope.reporting.outline.promises import promise_lines
from stepscope.reporting.words.names import CATEGORY_NAMES, join_phrases, ms, percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepscope.compare.changes import Change
    from stepscope.compare.comparison import Comparison
    from stepscope.compare.parity import Check
    from stepscope.compare.synthetic import SyntheticInput
    from stepscope.reporting.outline.parts import Part

#: Minimum change of an op or kernel to be shown, as a share of the base step. Smaller
#: changes may be chance (no interval is known), so only the JSON has them.
MIN_SHARE: Final = 0.001
#: Maximum number of causes named for a change; minimum share of each, in percent.
_MAX_OWNERS: Final = 3
_MIN_PERCENT: Final = 5.0
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
#: Minimum increase of the step time, in percent, that is written as a factor.
_MIN_PERCENT_FOR_RATIO: Final = 200.0
_SAME_WORK_ASSUMED: Final = (
    "Both runs count as the same work because of --same-work; the recordings do not "
    "prove it."
)
#: Minimum overlap of two runs that is displayed as 100 %.
_MIN_EQUAL_OVERLAP: Final = 0.995
#: Kind of change of an op or kernel → its verb.
_CHANGE_VERBS: Final = {
    "appeared": "appeared",
    "vanished": "vanished",
    "slowed": "slowed down",
    "quickened": "became quicker",
}


def verdict_sentence(comparison: Comparison) -> str:
    """Write in one sentence how the step time changed."""
    time = comparison.step_time
    if time is None:
        why = comparison.parity.unavailable
        reason = why.reason if why is not None else comparison.missing[0].reason
        return f"Not comparable. {reason}"
    each = comparison.per
    interval = (
        f"95 % interval: {change_text(time.low_ms)} to {change_text(time.high_ms)}"
    )
    if time.verdict == "noise":
        return (
            f"No change beyond chance: a {each} takes {ms(time.new_ms)}, and took "
            f"{ms(time.base_ms)} before ({interval})."
        )
    change = f"than the {ms(time.base_ms)} before"
    if time.change_percent >= _MIN_PERCENT_FOR_RATIO:
        change = f"{time.new_ms / time.base_ms:.1f} times the {ms(time.base_ms)} before"
    elif time.verdict == "faster":
        change = f"{percent(-time.change_percent)} less {change}"
    else:
        change = f"{percent(time.change_percent)} more {change}"
    return (
        f"A {each} takes {ms(time.new_ms)}, {change}: a change of "
        f"{change_text(time.change_ms)} ({interval})."
    )


def change_text(value: float) -> str:
    """Write a change in milliseconds with its sign, in a fitting unit."""
    if value == 0:
        return "0 ms"
    return f"{'+' if value > 0 else '−'}{ms(abs(value))}"


def explaining_sentences(comparison: Comparison) -> tuple[str, ...]:
    """Write what explains the change of the step time; empty without steps."""
    time = comparison.step_time
    if time is None:
        return ()
    sentences = []
    if time.verdict != "noise":
        certain = [owner for owner in comparison.owners or () if owner.certain]
        sentences += list(_owner_sentences(certain))
    ops, kernels = comparison.ops or (), comparison.kernels or ()
    for what, changes in (
        ("Ops on the device", [op for op in ops if op.side == "device"]),
        ("Ops on the host", [op for op in ops if op.side == "host"]),
        ("Kernels", kernels),
    ):
        min_ms = MIN_SHARE * time.base_ms
        kinds = []
        for kind, verb in _CHANGE_VERBS.items():
            sizes_ms = [
                change.change_ms
                for change in changes
                if change.kind == kind and abs(change.change_ms) >= min_ms
            ]
            if sizes_ms:
                kinds.append(f"{len(sizes_ms):,} {verb} ({change_text(sum(sizes_ms))})")
        if kinds:
            sentences.append(f"{what}, per {comparison.per}: {join_phrases(kinds)}.")
    if comparison.parity.vouched:
        sentences.append(_SAME_WORK_ASSUMED)
    return tuple(sentences)


def _owner_sentences(changes: Sequence[Change]) -> Iterator[str]:
    for lead, sign in (("Largest causes", 1), ("Opposite changes", -1)):
        named = [
            f"{OWNER_TEXTS[change.name]} {change_text(change.change_ms)} "
            f"({percent(abs(change.share_percent))} of the change)"
            for change in changes
            if change.share_percent is not None
            and sign * change.share_percent >= _MIN_PERCENT
        ]
        if named:
            yield f"{lead}: {join_phrases(named[:_MAX_OWNERS])}."


def check_text(check: Check) -> str:
    """Write one check of whether both runs do the same work."""
    parts = []
    if check.overlap is not None:
        parts.append(f"{100 * check.overlap:.0f} % in common")
    if check.base is not None and check.new is not None:
        base, new = _grouped_digits(check.base), _grouped_digits(check.new)
        parts.append(base if base == new else f"base {base}, new {new}")
    if check.by is not None:
        parts.append(f"evidence: {_EVIDENCE.get(check.by, check.by)}")
    details = f" ({'; '.join(parts)})" if parts else ""
    state: str = "unknown" if check.status == "unknown" else check.status
    if (
        check.status == "same"
        and check.overlap is not None
        and check.overlap < _MIN_EQUAL_OVERLAP
    ):
        state = "almost the same"
    elif check.topic == "steps" and check.status == "same" and check.base != check.new:
        state = "enough in both"
    elif check.status == "differs" and check.topic != "batch":
        state = "differ"
    return f"{_TOPICS[check.topic]}: {state}{details}"


def _grouped_digits(text: str) -> str:
    return f"{int(text):,}" if text.isdecimal() else text


_MAX_ROWS: Final = 10


@outlined
def comparison_outline(comparison: Comparison) -> Iterator[Part]:
    """Write the verdict, then whether the work is the same, then the changes."""
    parity = comparison.parity
    yield Heading(f"{comparison.new.run} against {comparison.base.run}", 1)
    yield Paragraph(verdict_sentence(comparison), strong=True)
    yield from _synthetic_parts(comparison.synthetic_input)
    runs = tuple(
        (
            f"{label}: {run.run}",
            f"{run.steps:,}",
            _time_cell(run.mean_ms),
            _time_cell(run.median_ms),
            _time_cell(run.recording_ms),
        )
        for label, run in (("base", comparison.base), ("new", comparison.new))
    )
    header = ("run", "steps", f"mean {comparison.per}", "median", "recording")
    yield Table(header, runs)
    if comparison.base.recording_ms or comparison.new.recording_ms:
        yield Paragraph("All times exclude the cost of the recording.")
    yield Heading("Do both runs do the same work?")
    yield Bullets(tuple(check_text(check) for check in parity.checks))
    if parity.unavailable is not None:
        yield Paragraph(f"{parity.unavailable.reason} {parity.unavailable.remedy}")
    elif parity.vouched:
        yield Paragraph(_SAME_WORK_ASSUMED)
    if sentences := explaining_sentences(comparison):
        yield Heading("What explains the change")
        yield Bullets(sentences)
    yield from _breakdown_parts(comparison)
    yield from _owner_parts(comparison)
    yield from _change_parts(comparison, "ops", "Which ops changed", "op")
    yield from _change_parts(comparison, "kernels", "Which kernels changed", "kernel")
    if comparison.findings:
        rows = tuple(
            (
                f"{change.id}: {change.title}",
                "known in one run" if change.change == "unknown" else change.change,
                _time_cell(change.base_ms),
                _time_cell(change.new_ms),
            )
            for change in comparison.findings
        )
        yield Heading("Findings")
        columns = ("finding", "", "per step, base", "per step, new")
        yield Table(columns, rows, frozenset({1}))
    if comparison.promises:
        yield Heading("Were the predicted gains reached?")
        # If the work differs, an earlier section says why predictions cannot be judged.
        lines = promise_lines(
            comparison.promises, comparison.per, reasons=parity.comparable
        )
        yield Bullets(tuple(lines))


def _synthetic_parts(verdict: SyntheticInput | None) -> Iterator[Part]:
    if verdict is None:
        return
    if verdict.share_percent is None:
        why = "" if verdict.unavailable is None else f" {verdict.unavailable.reason}"
        yield Paragraph(f"Cannot tell whether the base run waits for its input.{why}")
        return
    share = percent(verdict.share_percent) if verdict.share_percent > 0 else "no"
    limit = "" if verdict.threshold is None else f"{verdict.threshold.value:g} %"
    waits = "waits" if verdict.status == "fail" else "does not wait"
    text = (
        f"The base run {waits} for its input: its steps take {share} less time on "
        f"synthetic data (threshold: {limit})."
    )
    if verdict.copies_ms:
        text += f" Exposed copies of batches remain: {ms(verdict.copies_ms)} a step."
    yield Paragraph(text)


def _time_cell(value: float | None) -> str:
    if value is None:
        return "–"
    return ms(value) if value else "0 ms"


def _breakdown_parts(comparison: Comparison) -> Iterator[Part]:
    changed = [
        change
        for change in comparison.breakdown or ()
        if change.base_ms or change.new_ms
    ]
    if not changed:
        return
    yield Heading(f"The {comparison.per}'s time by category")
    rows = tuple(
        (
            CATEGORY_NAMES[change.name],
            _time_cell(change.base_ms),
            _time_cell(change.new_ms),
            change_text(change.change_ms) if change.certain else "by chance",
            _share_cell(change),
        )
        for change in changed
    )
    yield Table(("category", "base", "new", "change", "share of change"), rows)


def _share_cell(change: Change) -> str:
    if change.share_percent is None or change.certain is False:
        return "–"
    size = percent(abs(change.share_percent))
    if change.share_percent >= 0:
        return size
    return f">−{size[1:]}" if size.startswith("<") else f"−{size}"


def _owner_parts(comparison: Comparison) -> Iterator[Part]:
    if not comparison.owners:
        return
    yield Heading(f"Change by cause, mean {comparison.per}")
    rows = tuple(
        (
            OWNER_TEXTS[change.name],
            _time_cell(change.base_ms),
            _time_cell(change.new_ms),
            change_text(change.change_ms),
            f"{change_text(change.low_ms or 0.0)} to "
            f"{change_text(change.high_ms or 0.0)}"
            if change.certain
            else "by chance",
            _share_cell(change),
        )
        for change in comparison.owners[:_MAX_ROWS]
    )
    header = ("cause", "base", "new", "change", "95 % interval", "share of change")
    yield Table(header, rows)


def _change_parts(
    comparison: Comparison, field: str, title: str, what: str
) -> Iterator[Part]:
    changes: Sequence[Change] | None = getattr(comparison, field)
    if changes is None:
        absent = next(
            (entry for entry in comparison.missing if entry.field == field), None
        )
        if comparison.step_time is not None and absent is not None:
            yield Heading(title)
            yield Paragraph(f"{absent.reason} {absent.remedy}")
        return
    base_ms = 0.0 if comparison.step_time is None else comparison.step_time.base_ms
    relevant = [
        change for change in changes if abs(change.change_ms) >= MIN_SHARE * base_ms > 0
    ]
    if not relevant:
        return
    yield Heading(f"{title}, mean {comparison.per}")
    rows = tuple(_change_row(change, what) for change in relevant[:_MAX_ROWS])
    more_columns = ("runs",) if what == "kernel" else ()
    header = (what, "base", "new", "change", "share of change", *more_columns)
    yield Table(header, rows)
    left = sum(bool(change.change_ms) for change in changes) - min(
        len(relevant), _MAX_ROWS
    )
    if left:
        yield Paragraph(f"--format json lists {left} smaller changes.")


def _change_row(change: Change, what: str) -> tuple[str, ...]:
    side = f" ({change.side})" if change.side else ""
    side += f" of {change.scope}" if change.scope else ""
    row = (
        f"{change.name}{side}",
        "new" if change.base_ms is None else ms(change.base_ms),
        "gone" if change.new_ms is None else ms(change.new_ms),
        change_text(change.change_ms),
        _share_cell(change),
    )
    if what != "kernel":
        return row
    return (*row, f"{change.base_runs or 0:.4g} → {change.new_runs or 0:.4g}")
