"""A whole report as an outline: what Markdown is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.report.outline.parts import Bullets, Code, Heading, Paragraph, Table
from stepscope.report.words.checklist import stage_line
from stepscope.report.words.findings import (
    evidence_words,
    fitting_actions,
    gain,
    headline,
    names,
    reasons,
    standing,
)
from stepscope.report.words.hardware import hardware_words
from stepscope.report.words.names import (
    CATEGORY_NAMES,
    STEP_TIME,
    ms,
    percent,
    sentence,
    time_heading,
    us,
)
from stepscope.report.words.together import together_words
from stepscope.report.words.valuable import most_valuable
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.advice.finding import Finding
    from stepscope.report.document import Document
    from stepscope.report.outline.parts import Outline, Part

_SHOWN: Final = 5


def report_outline(document: Document) -> Outline:
    """Write the verdict, the three most valuable findings, the checklist and tables."""
    profile = document.profile
    devices = sorted({one.name or one.type for one in profile.devices})
    facts = [*profile.hosts, *devices]
    return (
        Heading(profile.run, 1),
        Paragraph(" · ".join(facts)),
        *(
            Paragraph(f"{sentence(one.message)} {one.remedy or ''}".strip())
            for one in document.quality
            if one.severity == "error"
        ),
        Paragraph(document.headline.text, strong=True),
        *_context(document),
        *_valuable(document),
        *_time(document),
        *_checks(document),
        *_tops(document),
    )


def _context(document: Document) -> Iterator[Part]:
    text = hardware_words(document)
    if text is not None:
        yield Paragraph(text)


def _valuable(document: Document) -> Iterator[Part]:
    told = most_valuable(
        document.findings,
        first=document.headline.finding,
        frameworks=document.frameworks,
    )
    if told:
        yield Heading("Most valuable")
        yield Bullets(
            tuple(f"{one.text} ({one.finding})" for one in told), numbered=True
        )
        joint = together_words(document.together)
        if joint is not None:
            yield Paragraph(joint)


def _time(document: Document) -> Iterator[Part]:
    overview = document.overview
    if isinstance(overview, Unavailable):
        yield Heading(STEP_TIME)
        yield Paragraph(f"{overview.reason} {overview.remedy}")
        return
    yield Heading(time_heading(overview.window))
    times = overview.step_time_ms
    if times.mean is not None and times.median is not None:
        yield Paragraph(
            f"{overview.step_count} steps, mean {ms(times.mean)}, median "
            f"{ms(times.median)}."
        )
    rows = tuple(
        (CATEGORY_NAMES[name], ms(time), percent(share))
        for name, time in overview.breakdown_ms.items()
        if (share := overview.breakdown_percent.get(name)) and time
    )
    if rows:
        of = "time of a step" if overview.window == "steps" else "recorded time"
        yield Table(("category", of, "share"), rows)


def _checks(document: Document) -> Iterator[Part]:
    yield Heading("Checklist")
    lines = []
    for stage in document.checklist:
        text = stage_line(stage, document.findings)
        lines.append(text)
    yield Bullets(tuple(lines))
    for one in document.findings:
        if one.status == "fail":
            yield from _failing(one, document)


def _failing(finding: Finding, document: Document) -> Iterator[Part]:
    yield Heading(f"{finding.id}: {finding.title}", 3)
    yield Paragraph(headline(finding))
    told = [
        f"{label}: {text}"
        for label, text in (
            ("From", reasons(finding)),
            ("By name", names(finding)),
            ("Gain", gain(finding)),
            ("Basis", standing(finding)),
        )
        if text
    ]
    told += [f"See {evidence_words(one)}" for one in finding.evidence]
    yield Bullets(tuple(told))
    for action in fitting_actions(finding, document.frameworks):
        yield Paragraph(f"Do: {action.text}")
        yield from (Code(text) for text in (action.code, action.env) if text)


def _tops(document: Document) -> Iterator[Part]:
    for result, title, name, time in (
        (document.ops, "Top ops", "name", "total_self_time_us"),
        (document.kernels, "Top kernels", "kernel_name", "total_us"),
    ):
        if isinstance(result, Unavailable):
            continue
        rows = result.rows
        if name == "name":
            on_device = rows.filter(pl.col("host_or_device") == "Device")
            rows = on_device if len(on_device) else rows
        top = rows.sort(time, descending=True).head(_SHOWN)
        if len(top):
            yield Heading(title)
            yield Table(
                (title.removeprefix("Top ").removesuffix("s"), "runs", "time"),
                tuple(
                    (row[0], f"{row[1]:,}", us(row[2]))
                    for row in top.select(name, "occurrences", time).iter_rows()
                ),
            )
