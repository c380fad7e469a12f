"""The explanation of a rule's verdict, and the rule's documentation, as an outline."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from stepscope.advice.catalogue import OWNER_TEXTS
from stepscope.advice.explanation import GAIN_FIELD
from stepscope.patterns import Pattern
from stepscope.reporting.outline.parts import (
    Bullets,
    Code,
    Heading,
    Paragraph,
    Table,
    outlined,
)
from stepscope.reporting.page import cut
from stepscope.reporting.words.findings import (
    causes_text,
    evidence_basis_text,
    evidence_text,
    finding_headline,
    gain_text,
    limit_text,
    number_rows,
    number_text,
    part_shares,
    pattern_sentence,
    status_name,
)
from stepscope.reporting.words.names import join_phrases
from stepscope.reporting.words.predictions import prediction_sentences
from stepscope.units import PS_PER_MS, duration_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.advice.explanation import Explanation, SignalNumbers
    from stepscope.advice.finding import Finding
    from stepscope.reporting.outline.parts import Part

#: Maximum number of rows of a critical path; minimum share of each, in percent.
_MAX_PATH_ROWS: Final = 6
_MIN_PATH_PERCENT: Final = 0.5
#: Maximum length of a text value; names of C++ template kernels can be very long.
_MAX_CELL_LENGTH: Final = 60
_NAMELESS: Final = "unnamed"
_FLAGS: Final = {
    "unrecorded": "Windows whose host work, or whose launched device work, was not "
    "recorded",
    "other_kind": "Windows whose work differs from the work of most windows",
    "warm_up": "Windows that used batches buffered before the recording, or first "
    "windows that took far longer than all other windows",
}


@outlined
def explanation_outline(explained: Explanation) -> Iterator[Part]:
    """Write verdict, numbers, evidence and left-out steps, then the rule itself."""
    finding = explained.finding
    yield Heading(f"{finding.id} · {explained.run}", 1)
    yield Paragraph(finding_headline(finding), strong=True)
    yield from _verdict_parts(explained)
    if rows := number_rows(finding):
        yield Heading("Numbers of the finding")
        yield Table(("number", "value", "from"), tuple(rows), frozenset({2}))
    if finding.predictions:
        yield Heading("The step after each change")
        yield Bullets(tuple(prediction_sentences(finding)))
    for signal in explained.signals:
        yield from _signal_parts(signal)
    yield from _evidence_parts(finding)
    yield from _critical_path_parts(explained)
    yield from _left_out_parts(explained)
    yield Heading("The rule")
    yield from rule_definition(finding.id) or (Paragraph(explained.about),)


def _verdict_parts(explained: Explanation) -> Iterator[Part]:
    finding = explained.finding
    severity = f", {finding.severity}" if finding.status == "fail" else ""
    status = status_name(finding)
    verdict = f"{status}{severity} ({evidence_basis_text(finding)})"
    place = f"Stage {finding.stage} of the checklist: {explained.stage}."
    sentences = [f"Verdict: {verdict}. {place}"]
    limit = finding.threshold
    if limit is not None:
        sentences.append(
            f"Threshold: {limit_text(limit)} (source: {limit.source}): {limit.meaning}."
        )
    for label, text in (
        ("Pattern", pattern_sentence(finding)),
        ("Causes", causes_text(finding)),
        ("Largest parts", part_shares(finding)),
        ("Gain", _gain_with_basis(finding)),
        ("To confirm", finding.confirm),
        ("Test that would refute the finding", finding.refute),
    ):
        if text:
            sentences.append(f"{label}: {text}")
    if finding.explained_by:
        explaining = join_phrases(finding.explained_by)
        sentences.append(f"The same time is explained in more detail by {explaining}.")
    if finding.unavailable is not None and finding.unavailable.remedy:
        sentences.append(f"To find out: {finding.unavailable.remedy}")
    yield Bullets(tuple(sentences))


def _gain_with_basis(finding: Finding) -> str | None:
    saving, text = finding.saving_ms, gain_text(finding)
    if saving is None or text is None:
        return None
    basis = "an upper bound from the breakdown of the step's time"
    if saving.basis == "replay":
        basis = "a replay of the steps with the change"
    error = saving.identity_error_percent
    missed = "" if error is None else f"; a replay without it is {error:.1f} % off"
    return f"{text} ({basis}{missed})"


def _signal_parts(signal: SignalNumbers) -> Iterator[Part]:
    yield Heading(f"Signal of the rule: {signal.name.replace('_', ' ')}")
    if signal.about:
        yield Paragraph(signal.about)
    if signal.unavailable is not None:
        yield Paragraph(
            f"Not available: {signal.unavailable.reason} {signal.unavailable.remedy}"
        )
        return
    rows = tuple(
        (name, _value_cell(name, value)) for name, value in signal.numbers.items()
    )
    if rows:
        yield Table(("number", "value"), rows, frozenset({1}))
    if signal.more:
        yield Paragraph(f"{signal.more:,} more numbers are not listed.")


def _value_cell(name: str, value: float | str | None) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return cut(value, _MAX_CELL_LENGTH)
    # The name of a value in ps has `_ps` at the end of a component or before a blank.
    if any(part.split(" ")[0].endswith("_ps") for part in name.split(".")):
        return duration_text(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


def _evidence_parts(finding: Finding) -> Iterator[Part]:
    if not finding.evidence:
        return
    yield Heading("Evidence on the timeline")
    yield Bullets(
        tuple(
            f"{span.host}{'' if span.device is None else f', device {span.device}'}: "
            f"{evidence_text(span)}"
            for span in finding.evidence
        )
    )
    start = finding.evidence[0].start_ps / PS_PER_MS
    yield Paragraph(
        f"The first range starts {start:,.3f} ms after the start of the recording. "
        "To write the whole timeline for a trace viewer:"
    )
    yield Code("stepscope show trace_viewer PATH --format json -o trace.json.gz")


def _critical_path_parts(explained: Explanation) -> Iterator[Part]:
    path = explained.critical_path
    yield Heading("The critical path of a step")
    if path is None:
        yield from (
            Paragraph(f"{entry.reason} {entry.remedy}")
            for entry in explained.missing
            if entry.field != GAIN_FIELD
        )
        return
    steps = "step" if path.steps == 1 else "steps"
    yield Paragraph(
        f"Mean of {path.steps} {steps} on {path.host}. Event starts that no dependency "
        f"explains: {number_text(path.unexplained_percent, 'percent')}."
    )
    for what, shares in (
        ("cause", path.owners),
        ("op, kernel or function", path.ops),
        ("thread or stream", path.threads),
    ):
        rows = tuple(
            (
                _NAMELESS
                if share.name is None
                else OWNER_TEXTS.get(share.name, share.name)
                if what == "cause"
                else share.name,
                number_text(share.ms, "ms"),
                number_text(share.percent, "percent"),
            )
            for share in shares[:_MAX_PATH_ROWS]
            if share.percent >= _MIN_PATH_PERCENT
        )
        yield Table((what, "of a step", "share"), rows)


def _left_out_parts(explained: Explanation) -> Iterator[Part]:
    left_out = explained.left_out
    texts = [f"{left_out.judged} of {left_out.windows} windows were judged."]
    if left_out.open_end:
        texts.append(f"Windows that the end of the recording cut: {left_out.open_end}.")
    texts += [f"{_FLAGS.get(flag, flag)}: {n}." for flag, n in left_out.flags.items()]
    if left_out.devices:
        texts.append(
            "The effect is measured on the busiest device. Other examined devices: "
            f"{', '.join(left_out.devices)}."
        )
    texts += [f"Limit of the gain: {text}" for text in explained.finding.floors]
    texts += [entry.reason for entry in explained.missing if entry.field == GAIN_FIELD]
    yield Heading("Data that was left out")
    yield Bullets(tuple(texts))


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
                yield from (Code(code_line) for code_line in lines)
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
    if all(line.startswith("    ") for line in lines):
        yield from (Code(line.strip()) for line in lines)
    elif lines[0].startswith("|"):
        rows = [_row_cells(line) for line in lines]
        width = len(rows[0])
        body = tuple(row for row in rows[2:] if len(row) == width)
        yield Table(rows[0], body, frozenset(range(width)))
    elif _ITEM.match(lines[0]):
        yield Bullets(tuple(_list_items(lines)))
    else:
        yield Paragraph(_without_links(" ".join(line.strip() for line in lines)))


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
        _without_links(cell.strip().replace("\0", "|")) for cell in inside.split("|")
    )


def _without_links(text: str) -> str:
    return _LINK.sub(r"\1", text)
