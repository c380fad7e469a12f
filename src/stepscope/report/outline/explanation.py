"""The explanation of a rule's verdict, and the rule's documentation, as an outline."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from stepscope.advice.catalogue import OWNER_WORDS
from stepscope.advice.explanation import GAIN_FIELD
from stepscope.patterns import Pattern
from stepscope.report.outline.parts import (
    Bullets,
    Code,
    Heading,
    Paragraph,
    Table,
    outlined,
)
from stepscope.report.words.findings import (
    cause_words,
    evidence_words,
    finding_headline,
    gain_words,
    limit_words,
    number_rows,
    number_words,
    part_shares,
    pattern_sentence,
    standing_words,
)
from stepscope.report.words.names import join_words
from stepscope.units import PS_PER_MS, duration_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.advice.explanation import Explanation, SignalNumbers
    from stepscope.advice.finding import Finding
    from stepscope.report.outline.parts import Part

#: Maximum number of rows in a table of the critical path; minimum percentage of each.
_MOST_ON_PATH: Final = 6
_LEAST_ON_PATH: Final = 0.5
#: Maximum length of a text value; names of C++ template kernels can be very long.
_LONGEST: Final = 60
_NAMELESS: Final = "unnamed"
_FLAGS: Final = {
    "unrecorded": "Windows without a record of their work, or of the device work that "
    "they launched",
    "other_kind": "Windows with other work than most windows",
    "warm_up": "Windows that used batches buffered before the recording, or that were "
    "first and took far longer than all others",
}


@outlined
def explanation_outline(found: Explanation) -> Iterator[Part]:
    """Write verdict, numbers, evidence and left-out steps, then the rule itself."""
    finding = found.finding
    yield Heading(f"{finding.id} · {found.run}", 1)
    yield Paragraph(finding_headline(finding), strong=True)
    yield from _verdict_parts(found)
    if rows := number_rows(finding):
        yield Heading("Numbers of the finding")
        yield Table(("number", "value", "from"), tuple(rows), frozenset({2}))
    for one in found.signals:
        yield from _signal_parts(one)
    yield from _evidence_parts(finding)
    yield from _critical_path_parts(found)
    yield from _left_out_parts(found)
    yield Heading("The rule")
    yield from rule_definition(finding.id) or (Paragraph(found.about),)


def _verdict_parts(found: Explanation) -> Iterator[Part]:
    finding = found.finding
    severity = f", {finding.severity}" if finding.status == "fail" else ""
    status = finding.status.replace("_", " ")
    verdict = f"{status}{severity} ({standing_words(finding)})"
    place = f"Stage {finding.stage} of the checklist: {found.stage}."
    told = [f"Verdict: {verdict}. {place}"]
    limit = finding.threshold
    if limit is not None:
        told.append(
            f"Threshold: {limit_words(limit)} (source: {limit.source}): "
            f"{limit.meaning}."
        )
    for label, text in (
        ("Pattern", pattern_sentence(finding)),
        ("Causes", cause_words(finding)),
        ("Largest parts", part_shares(finding)),
        ("Gain", _gain_with_basis(finding)),
        ("To confirm", finding.confirm),
        ("Test that would refute it", finding.refute),
    ):
        if text:
            told.append(f"{label}: {text}")
    if finding.explained_by:
        by = join_words(finding.explained_by)
        told.append(f"The same time is explained in more detail by {by}.")
    if finding.unavailable is not None and finding.unavailable.remedy:
        told.append(f"To find out: {finding.unavailable.remedy}")
    yield Bullets(tuple(told))


def _gain_with_basis(finding: Finding) -> str | None:
    saving, text = finding.saving_ms, gain_words(finding)
    if saving is None or text is None:
        return None
    basis = (
        "a replay of the steps with the change"
        if saving.basis == "replay"
        else "limits from the account of the step's time"
    )
    error = saving.identity_error_percent
    missed = "" if error is None else f"; error without the change: {error:.1f} %"
    return f"{text} ({basis}{missed})"


def _signal_parts(one: SignalNumbers) -> Iterator[Part]:
    yield Heading(f"Signal of the rule: {one.name.replace('_', ' ')}")
    if one.about:
        yield Paragraph(one.about)
    if one.unavailable is not None:
        yield Paragraph(
            f"Not available: {one.unavailable.reason} {one.unavailable.remedy}"
        )
        return
    rows = tuple(
        (name, _value_cell(name, value)) for name, value in one.numbers.items()
    )
    if rows:
        yield Table(("number", "value"), rows, frozenset({1}))
    if one.more:
        yield Paragraph(f"{one.more:,} more numbers are not listed.")


def _value_cell(name: str, value: float | str | None) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value if len(value) <= _LONGEST else f"{value[: _LONGEST - 1]}…"
    # `_ps` can end any part of a dotted name, or the word before a blank.
    if any(part.split(" ")[0].endswith("_ps") for part in name.split(".")):
        return duration_text(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


def _evidence_parts(finding: Finding) -> Iterator[Part]:
    if not finding.evidence:
        return
    yield Heading("Evidence on the timeline")
    yield Bullets(
        tuple(
            f"{one.host}{'' if one.device is None else f', device {one.device}'}: "
            f"{evidence_words(one)}"
            for one in finding.evidence
        )
    )
    start = finding.evidence[0].start_ps / PS_PER_MS
    yield Paragraph(
        f"The first range starts {start:,.3f} ms after the start of the recording. "
        "To write the whole timeline for a trace viewer:"
    )
    yield Code("stepscope show trace_viewer PATH --format json -o trace.json.gz")


def _critical_path_parts(found: Explanation) -> Iterator[Part]:
    path = found.critical_path
    yield Heading("The critical path of a step")
    if path is None:
        yield from (
            Paragraph(f"{one.reason} {one.remedy}")
            for one in found.missing
            if one.field != GAIN_FIELD
        )
        return
    steps = "step" if path.steps == 1 else "steps"
    yield Paragraph(
        f"Mean of {path.steps} {steps} on {path.host}. Starts that no dependency "
        f"explains: {number_words(path.unexplained_percent, 'percent')}."
    )
    for what, shares in (
        ("owner", path.owners),
        ("op, kernel or function", path.ops),
        ("thread or stream", path.threads),
    ):
        rows = tuple(
            (
                _NAMELESS
                if one.name is None
                else OWNER_WORDS.get(one.name, one.name)
                if what == "owner"
                else one.name,
                number_words(one.ms, "ms"),
                number_words(one.percent, "percent"),
            )
            for one in shares[:_MOST_ON_PATH]
            if one.percent >= _LEAST_ON_PATH
        )
        yield Table((what, "of a step", "share"), rows)


def _left_out_parts(found: Explanation) -> Iterator[Part]:
    one = found.left_out
    told = [f"{one.judged} of {one.windows} windows were judged."]
    if one.open_end:
        told.append(f"Windows that the end of the recording cut: {one.open_end}.")
    told += [f"{_FLAGS.get(flag, flag)}: {n}." for flag, n in one.flags.items()]
    if one.devices:
        told.append(
            "The effect is measured on the busiest device. Other examined devices: "
            f"{', '.join(one.devices)}."
        )
    told += [f"Limit of the gain: {text}" for text in found.finding.floors]
    told += [one.reason for one in found.missing if one.field == GAIN_FIELD]
    yield Heading("What was left out")
    yield Bullets(tuple(told))


_PACKAGE: Final = Path(__file__).resolve().parents[2]
#: Folders of the rules' pages: in a checkout, and in an installed package.
_PLACES: Final = (
    _PACKAGE.parents[1] / "docs" / "advice",
    _PACKAGE / "advice" / "pages",
)
_LINK: Final = Pattern(r"\[([^\]]*)\]\([^)]*\)")
_ITEM: Final = Pattern(r"\s*(?:[-*]|\d+\.)\s+(.*)")


def rule_definition(rule: str) -> tuple[Part, ...] | None:
    """Return the page of a rule without its title; None if no page is installed."""
    name = f"{rule.replace('.', '_')}.md"
    for folder in _PLACES:
        try:
            text = (folder / name).read_text(encoding="utf-8")
        except OSError:
            continue
        return tuple(parse_markdown(text))[1:]
    return None


def parse_markdown(text: str) -> Iterator[Part]:
    """Parse the subset of Markdown that the rules' pages use."""
    lines: list[str] = []
    fenced = False
    for line in (*text.splitlines(), ""):
        if line.startswith("```"):
            if lines and fenced:
                yield from (Code(one) for one in lines)
            elif lines:
                yield from _block_parts(lines)
            lines, fenced = [], not fenced
        elif fenced or line.strip():
            if line.startswith("#") and not fenced:
                if lines:
                    yield from _block_parts(lines)
                mark, _, title = line.partition(" ")
                yield Heading(_without_links(title), len(mark) + 1)
                lines = []
            else:
                lines.append(line)
        elif lines:
            yield from _block_parts(lines)
            lines = []


def _block_parts(lines: list[str]) -> Iterator[Part]:
    if all(one.startswith("    ") for one in lines):
        yield from (Code(one.strip()) for one in lines)
    elif lines[0].startswith("|"):
        rows = [_row_cells(one) for one in lines]
        width = len(rows[0])
        body = tuple(row for row in rows[2:] if len(row) == width)
        yield Table(rows[0], body, frozenset(range(width)))
    elif _ITEM.match(lines[0]):
        yield Bullets(tuple(_list_items(lines)))
    else:
        yield Paragraph(_without_links(" ".join(one.strip() for one in lines)))


def _list_items(lines: list[str]) -> Iterator[str]:
    item = ""
    for line in lines:
        begins = _ITEM.match(line)
        if begins is None:
            item += f" {line.strip()}"
            continue
        if item:
            yield _without_links(item)
        item = begins.group(1)
    yield _without_links(item)


def _row_cells(line: str) -> tuple[str, ...]:
    inside = line.strip().strip("|").replace("\\|", "\0")
    return tuple(
        _without_links(one.strip().replace("\0", "|")) for one in inside.split("|")
    )


def _without_links(text: str) -> str:
    return _LINK.sub(r"\1", text)
