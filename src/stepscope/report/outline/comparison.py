"""Two runs side by side, as an outline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.words import OWNER_WORDS
from stepscope.report.outline.parts import Bullets, Heading, Paragraph, Table
from stepscope.report.outline.promises import promise_lines
from stepscope.report.words.comparison import (
    LEAST_SHARE,
    change_words,
    check_words,
    explaining,
    verdict,
)
from stepscope.report.words.names import CATEGORY_NAMES, ms, percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepscope.compare.changes import Change
    from stepscope.compare.comparison import Comparison, FindingChange, RunOfTwo
    from stepscope.compare.parity import Parity
    from stepscope.compare.synthetic import SyntheticInput
    from stepscope.report.outline.parts import Outline, Part

_MOST_ROWS: Final = 10
_KINDS: Final = {
    "gone": "gone",
    "came": "came",
    "stayed": "stayed",
    "unknown": "known in one",
}


def comparison_outline(found: Comparison) -> Outline:
    """Write parity first, then the verdict, then what changed."""
    return (
        Heading(f"{found.new.run} against {found.base.run}", 1),
        Paragraph(verdict(found), strong=True),
        *_synthetic(found.synthetic_input),
        *_runs(found),
        Heading("Is it the same work?"),
        *_parity(found.parity),
        *_explaining(found),
        *_breakdown(found),
        *_owners(found),
        *_table(found, "ops", "What ops gained or lost", "op"),
        *_table(found, "kernels", "What kernels gained or lost", "kernel"),
        *_findings(found.findings),
        *_promises(found),
    )


def _synthetic(found: SyntheticInput | None) -> Iterator[Part]:
    """Say whether the run on real data waits for its input."""
    if found is None:
        return
    if found.share_percent is None:
        why = "" if found.unavailable is None else f" {found.unavailable.reason}"
        yield Paragraph(f"Cannot tell whether the base run waits for its input.{why}")
        return
    share = percent(found.share_percent) if found.share_percent > 0 else "nothing"
    limit = "" if found.threshold is None else f"{found.threshold.value:g} %"
    waits = "waits" if found.status == "fail" else "does not wait"
    text = (
        f"The base run {waits} for its input: its steps take {share} less on synthetic "
        f"data (a matter from {limit} on)."
    )
    if found.copies_ms:
        left = ms(found.copies_ms)
        text += f" Copies of batches that nothing hides are left: {left} a step."
    yield Paragraph(text)


def _range(low: float, high: float) -> str:
    return f"{change_words(low)} to {change_words(high)}"


def _runs(found: Comparison) -> Iterator[Part]:
    rows = tuple(
        (
            f"{label}: {one.run}",
            f"{one.steps:,}",
            _time(one.mean_ms),
            _time(one.median_ms),
            _time(one.recording_ms),
        )
        for label, one in (("base", found.base), ("new", found.new))
    )
    header = ("run", "steps", f"mean {found.per}", "median", "recording")
    yield Table(header, rows)
    if any(_has_recording(one) for one in (found.base, found.new)):
        yield Paragraph(
            "What the recording itself took of a step is left out of all times."
        )


def _has_recording(one: RunOfTwo) -> bool:
    return bool(one.recording_ms)


def _time(value: float | None) -> str:
    if value is None:
        return "–"
    return ms(value) if value else "0 ms"


def _parity(parity: Parity) -> Iterator[Part]:
    yield Bullets(tuple(check_words(one) for one in parity.checks))
    if parity.unavailable is not None:
        yield Paragraph(f"{parity.unavailable.reason} {parity.unavailable.remedy}")
    elif parity.vouched:
        yield Paragraph(
            "The recordings do not prove that the work is the same; it was stated "
            "(--same-work)."
        )


def _explaining(found: Comparison) -> Iterator[Part]:
    if sentences := explaining(found):
        yield Heading("What explains the change")
        yield Bullets(sentences)


def _breakdown(found: Comparison) -> Iterator[Part]:
    told = [one for one in found.breakdown or () if one.base_ms or one.new_ms]
    if not told:
        return
    yield Heading(f"The {found.per}'s time by category")
    rows = tuple(
        (
            CATEGORY_NAMES[one.name],
            _time(one.base_ms),
            _time(one.new_ms),
            change_words(one.change_ms) if one.certain else "by chance",
            _share(one),
        )
        for one in told
    )
    yield Table(("category", "base", "new", "change", "share of it"), rows)


def _share(one: Change) -> str:
    """Write what share of the step's change something explains."""
    if one.share_percent is None or one.certain is False:
        return "–"
    size = percent(abs(one.share_percent))
    if one.share_percent >= 0:
        return size
    return f">−{size[1:]}" if size.startswith("<") else f"−{size}"


def _owners(found: Comparison) -> Iterator[Part]:
    if not found.owners:
        return
    yield Heading(f"Whose time changed, mean {found.per}")
    rows = tuple(
        (
            OWNER_WORDS[one.name],
            _time(one.base_ms),
            _time(one.new_ms),
            change_words(one.change_ms),
            _range(one.low_ms or 0.0, one.high_ms or 0.0)
            if one.certain
            else "by chance",
            _share(one),
        )
        for one in found.owners[:_MOST_ROWS]
    )
    header = ("owner", "base", "new", "change", "95 % interval", "share of it")
    yield Table(header, rows)


def _table(found: Comparison, field: str, title: str, what: str) -> Iterator[Part]:
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
    header = (what, "base", "new", "change", "share of it", *beside)
    yield Table(header, rows)
    left = sum(bool(one.change_ms) for one in changes) - min(len(told), _MOST_ROWS)
    if left:
        yield Paragraph(f"{left} smaller changes in --format json.")


def _change_row(one: Change, what: str) -> tuple[str, ...]:
    side = f" ({one.side})" if one.side else ""
    side += f" of {one.scope}" if one.scope else ""
    row = (
        f"{one.name}{side}",
        "new" if one.base_ms is None else ms(one.base_ms),
        "gone" if one.new_ms is None else ms(one.new_ms),
        change_words(one.change_ms),
        _share(one),
    )
    if what != "kernel":
        return row
    return (*row, f"{one.base_runs or 0:.4g} → {one.new_runs or 0:.4g}")


def _findings(changes: Sequence[FindingChange]) -> Iterator[Part]:
    if not changes:
        return
    yield Heading("Findings")
    rows = tuple(
        (
            f"{one.id}: {one.title}",
            _KINDS[one.change],
            _time(one.base_ms),
            _time(one.new_ms),
        )
        for one in changes
    )
    yield Table(("finding", "", "a step, base", "a step, new"), rows, frozenset({1}))


def _promises(found: Comparison) -> Iterator[Part]:
    if not found.promises:
        return
    yield Heading("Was it worth what was promised?")
    # Why nothing can be said of any of them stands above.
    lines = promise_lines(found.promises, found.per, reasons=found.parity.comparable)
    yield Bullets(tuple(lines))
