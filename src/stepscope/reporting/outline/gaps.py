"""What the time of an interval is attributed to, in sentences and as an outline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.catalogue import OWNER_TEXTS
from stepscope.derive.facts.evidence import Part
from stepscope.reporting.outline import parts
from stepscope.reporting.page import cut_middle
from stepscope.reporting.words.names import (
    PART_PREFIXES,
    join_phrases,
    part_text,
    percent,
    plain_name,
)
from stepscope.units import PS_PER_MS, duration_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.analysis.gaps.result import GapExplanation, NamedPart, OwnedTime

#: Maximum number of causes in a sentence, and the minimum share of each, in percent.
_MAX_OWNERS: Final = 4
_MIN_PERCENT: Final = 1.0
#: Minimum share of a cause's time that its longest name must have to be mentioned.
_MIN_NAMED_PART: Final = 0.3
#: Share of unexplained time, in percent, above which the sentence begins with it.
_NO_ANSWER: Final = 40.0
_UNEXPLAINED: Final = "unexplained"
#: Maximum length of a kernel's name in a sentence; some names have hundreds of letters.
_MAX_NAME_LENGTH: Final = 60


def gap_text(gap: GapExplanation) -> str:
    """Write what the time of an interval is attributed to."""
    sentences = [_lead_sentence(gap)]
    owners = [
        owner
        for owner in gap.owners
        if owner.owner != _UNEXPLAINED and owner.percent >= _MIN_PERCENT
    ]
    shares = [
        f"{_owner_text(owner)} {percent(owner.percent)}"
        for owner in owners[:_MAX_OWNERS]
    ]
    unexplained = gap.not_explained_percent
    # Time outside of steps has no cause by definition, so it is not unexplained.
    is_outside = gap.outside_ps >= gap.dur_ps
    no_answer = (
        f"Unexplained: {percent(unexplained)} of the interval." if unexplained else None
    )
    if is_outside:
        no_answer = None
    if gap.kind == "host" and len(gap.owners) == 1 and not unexplained:
        shares = []
    order = [f"Causes: {join_phrases(shares)}." if shares else None, no_answer]
    if unexplained > _NO_ANSWER:
        order.reverse()
    sentences += [text for text in order if text]
    if gap.outside_ps:
        part = "All" if is_outside else duration_text(gap.outside_ps)
        sentences.append(
            f"{part} of the interval is before the first recorded step or after the "
            "last, where the causes of time are not determined."
        )
    if gap.remedy is not None:
        sentences.append(f"To see more: {gap.remedy}")
    return " ".join(sentences)


def _lead_sentence(gap: GapExplanation) -> str:
    long = duration_text(gap.dur_ps)
    device = f"Device {gap.device}"
    if gap.kind == "gap":
        ends = (
            f"{word} {cut_middle(plain_name(event.name), _MAX_NAME_LENGTH)}"
            for word, event in (("after", gap.before), ("before", gap.after))
            if event is not None
        )
        return f"{device} is idle for {long} {join_phrases([*ends])}".rstrip() + "."
    first = gap.owners[0] if gap.owners else None
    if gap.kind == "interval":
        subject = "the step threads" if gap.device is None else device.lower()
        return f"The interval covers {long} of {subject}."
    if first is None:
        return f"The interval of {long} is outside of the steps."
    if gap.kind == "busy":
        return f"{device} is busy for {long}: {OWNER_TEXTS[first.owner]}."
    return f"Cause of {long} on the step threads: {_owner_text(first)}."


def _owner_text(owned: OwnedTime) -> str:
    named = [part for part in owned.parts if part.name is not None]
    if not named or named[0].ps < _MIN_NAMED_PART * owned.ps:
        return OWNER_TEXTS[owned.owner]
    return f"{OWNER_TEXTS[owned.owner]} ({named_part_text(named[0])})"


def named_part_text(part: NamedPart) -> str:
    """Write a name, with file and line if it is a function."""
    if part.name is None:
        return "unnamed"
    if part.detail in PART_PREFIXES:
        return f"{PART_PREFIXES[part.detail]} {part.name}"
    return part_text(
        Part(
            name=part.name,
            detail=part.detail,
            function=part.function,
            file=part.file,
            line=part.line,
            share_percent=part.percent,
        )
    )


def interval_position_text(gap: GapExplanation) -> str:
    """Write host, device, step, start and end of an interval."""
    device = "" if gap.device is None else f", device {gap.device}"
    step = "" if gap.step is None else f", step {gap.step}"
    # Nanoseconds (six decimals) are precise enough to select the interval again.
    begin, end = (f"{ps / PS_PER_MS:,.6f} ms" for ps in (gap.begin_ps, gap.end_ps))
    return f"{gap.host}{device}{step}, from {begin} to {end}"


#: Maximum number of names per cause; minimum percentage of the interval for each.
_MAX_NAMES: Final = 4
_MIN_LISTED_PERCENT: Final = 0.5
_MAX_HOST_ROWS: Final = 10


@parts.outlined
def gap_outline(gap: GapExplanation) -> Iterator[parts.Part]:
    """Write a sentence on the interval, the causes of its time, and other host work."""
    yield parts.Heading(interval_position_text(gap), 1)
    yield parts.Paragraph(gap_text(gap), strong=True)
    yield from _owner_parts(gap)
    rows = tuple(
        (
            f"{event.name} × {event.count:,}" if event.count > 1 else event.name,
            f"{event.thread}, launching" if event.launching else event.thread,
            duration_text(event.ps),
            percent(event.percent),
        )
        for event in gap.meanwhile[:_MAX_HOST_ROWS]
    )
    if rows:
        yield parts.Heading("What the host's threads did in this interval")
        header = ("event", "thread", "self time", "share")
        yield parts.Table(header, rows, frozenset({1}))
    yield parts.Heading("Confidence")
    yield parts.Bullets(
        (
            f"Confidence of the explanation: {gap.confidence}.",
            f"Unexplained: {percent(gap.not_explained_percent)} of the interval.",
        )
    )


def _owner_parts(gap: GapExplanation) -> Iterator[parts.Part]:
    rows = []
    for owned in gap.owners:
        rows.append(
            (OWNER_TEXTS[owned.owner], duration_text(owned.ps), percent(owned.percent))
        )
        named = [part for part in owned.parts if part.name is not None]
        rows += [
            (
                f"  {named_part_text(part)}",
                duration_text(part.ps),
                percent(part.percent),
            )
            for part in named[:_MAX_NAMES]
            if part.percent >= _MIN_LISTED_PERCENT
        ]
    if rows:
        yield parts.Heading("Causes of the time")
        yield parts.Table(("cause", "time", "share"), tuple(rows))
