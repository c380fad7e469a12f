"""Sections on time: the breakdown as bars, the steps, and one row per host."""

from __future__ import annotations

from collections import defaultdict
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.catalogue import OWNERS_OF
from stepscope.remedies import NSIGHT, Remedy
from stepscope.reporting.outline.parts import (
    Bar,
    Bars,
    Code,
    Excerpt,
    Paragraph,
    Series,
    Table,
)
from stepscope.reporting.page import cut
from stepscope.reporting.words.names import (
    CATEGORY_NAMES,
    MODULE,
    PART_PREFIXES,
    SOURCE_TEXTS,
    join_phrases,
    ms,
    percent,
    plain_name,
)
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepscope.analysis.overview_page import OverviewPageResult
    from stepscope.analysis.overview_page.account import AccountEntry, AccountPart
    from stepscope.analysis.overview_page.page import HostSummary, StepDetection
    from stepscope.analysis.steps.summary import StepSummary
    from stepscope.reporting.document import Document
    from stepscope.reporting.outline.parts import Part
    from stepscope.reporting.page import Role
    from stepscope.unavailable import Missing

    Summary = OverviewPageResult | StepSummary

#: Minimum share of the step, in percent, of a category whose causes are listed.
_MIN_DIVIDED_PERCENT: Final = 1.0
#: Minimum share of the step, in percent, of a named part of a category.
_MIN_NAMED_PERCENT: Final = 5.0
#: Minimum length, in percent, of a bar that a short report divides.
_MIN_LONG_PERCENT: Final = 20.0
#: Minimum share of the step, in percent, of a cause that is listed.
_MIN_DISPLAYED_PERCENT: Final = 0.1
#: Maximum number of named parts of a category.
_MAX_PARTS: Final = 3
#: Maximum number of step numbers in a list; longer lists are shown as a count.
_MAX_STEP_NUMBERS: Final = 8
#: Minimum number of steps of a host for a sparkline.
_MIN_DRAWN_STEPS: Final = 3
#: Maximum number of hosts with separate bars.
_MAX_HOSTS: Final = 3
#: Flags that every recording has; they are shown only on the page of the tool.
_USUAL_FLAGS: Final = frozenset({"first"})
#: Codes of reasons that mean a recording without device activity.
_NO_DEVICE: Final = frozenset({"NO_DEVICE_PLANE", "NO_DEVICE_EVENTS"})
#: Categories of pure device work; the second set adds categories of host and device.
_ONLY_OF_DEVICES: Final = frozenset(
    {"device_to_device", "device_compute_16", "device_compute_32"}
)
_OF_DEVICES: Final = _ONLY_OF_DEVICES | {
    "output",
    "kernel_launch",
    "device_collectives",
}


def where_time_went(document: Document) -> Iterator[Part]:
    """Draw a bar for each category; list unmeasured categories with their reasons.

    Hosts that do not run in lock step have no common mean; each gets its own bars.
    """
    page = document.overview
    if isinstance(page, Unavailable):
        yield Paragraph(f"{page.reason} {page.remedy}")
        return
    if page.breakdown_ms:
        yield _basis_paragraph(page, page.step_detection)
        yield from _bars_of_run(page)
        yield from _categories_not_recorded(document, page)
        yield from _naming_advice(document, page)
        return
    for host in page.by_host[:_MAX_HOSTS]:
        yield Paragraph(host.host, role="title")
        yield _basis_paragraph(host.summary, host.step_detection)
        yield from _category_bars(host.summary, "time of a step")
    left = len(page.by_host) - _MAX_HOSTS
    if left > 0:
        yield Paragraph(f"{left} more hosts are in the table of hosts", role="dim")
    yield from _categories_not_recorded(document, page)


def largest_categories(document: Document) -> Iterator[Part]:
    """Draw the bars, with the largest named part below each long bar.

    Hosts that do not run in lock step get one row each.
    """
    page = document.overview
    if isinstance(page, Unavailable) or not page.breakdown_ms:
        yield from host_table(document)
        return
    yield _basis_paragraph(page, page.step_detection)
    for part in _bars_of_run(page):
        if isinstance(part, Bars):
            bars = (
                Bar(bar.name, bar.time, bar.percent, _largest_part(bar))
                for bar in part.bars
            )
            yield Bars(tuple(bars), part.time)


def _bars_of_run(page: OverviewPageResult) -> Iterator[Part]:
    label = "time of a step" if page.window == "steps" else "recorded time"
    single_device = len({(entry.host, entry.device) for entry in page.account}) == 1
    return _category_bars(page, label, account=page.account if single_device else ())


def _largest_part(bar: Bar) -> tuple[Paragraph | Excerpt, ...]:
    if bar.percent < _MIN_LONG_PERCENT:
        return ()
    named = (part for part in bar.below if isinstance(part, Excerpt))
    return tuple(islice(chain(named, bar.below), 1))


def _basis_paragraph(summary: Summary, detection: StepDetection) -> Paragraph:
    mean = summary.step_time_ms.mean
    if detection.source is None:
        text = "No steps were found: shares are of the whole recording"
        return Paragraph(f"{text}{f', {ms(mean)}' if mean else ''}.", role="dim")
    n = summary.step_count
    what = "1 step of" if n == 1 else f"mean of {n} steps,"
    text = f"{what} {ms(mean) if mean else 'unknown length'}"
    notes = []
    if summary.left_out:
        counts = (
            f"{n} {flag.replace('_', ' ')}" for flag, n in summary.left_out.items()
        )
        notes.append(f"left out: {', '.join(counts)}")
    host = summary.host_period_ms
    if detection.anchor in ("device", "executor") and host is not None and host.mean:
        notes.append(
            f"steps are timed on the {detection.anchor}, and the host starts a step "
            f"every {ms(host.mean)}"
        )
    return Paragraph("; ".join([text, *notes]), role="dim")


def _category_bars(
    summary: Summary, label: str, *, account: Sequence[AccountEntry] = ()
) -> Iterator[Part]:
    bars = []
    nothing = []
    total_ms = sum(summary.breakdown_ms.values())
    input_percent = summary.breakdown_percent.get("input") or 0.0
    # Time of the category `other` that counts as input: idle time before a batch copy.
    silent = (summary.input_percent or 0.0) - input_percent
    for name, title in CATEGORY_NAMES.items():
        time = summary.breakdown_ms.get(name)
        share = summary.breakdown_percent.get(name)
        if time is None or share is None:
            continue
        if not time:
            nothing.append(title)
            continue
        unknown_ms = summary.breakdown_detail_ms.get("compute_unknown") or 0.0
        # The category of 32-bit work has its name only if that is most of it.
        is_known = name != "device_compute_32" or 2 * unknown_ms <= time
        shown_title = title if is_known else "Device compute, unknown"
        below: tuple[Paragraph | Excerpt, ...] = (
            *_owner_shares(summary, name, time),
            *_named_excerpts(name, account, total_ms),
        )
        if name == "other" and silent >= _MIN_DISPLAYED_PERCENT:
            before_copies = Paragraph(
                f"{percent(silent)} is time before the copy of a batch; its cause was "
                "not recorded, and the checks count it as input.",
                role="dim",
                indent=4,
            )
            below = (*below, before_copies)
        bars.append(Bar(shown_title, ms(time), share, below))
    if bars:
        yield Bars(tuple(bars), label)
    if nothing:
        yield Paragraph(f"No time went to: {'; '.join(nothing)}.", role="dim")


def _owner_shares(summary: Summary, category: str, time: float) -> Iterator[Paragraph]:
    parts = {
        name: summary.breakdown_detail_ms.get(part)
        for part, name in OWNERS_OF[category].items()
    }
    known = {name: part for name, part in parts.items() if part}
    total_ms = sum(summary.breakdown_ms.values())
    if not total_ms or not time or 100 * time / total_ms < _MIN_DIVIDED_PERCENT:
        return
    shares = [
        f"{name} {percent(100 * part / total_ms)}"
        for name, part in sorted(known.items(), key=lambda pair: -pair[1])
        if 100 * part / total_ms >= _MIN_DISPLAYED_PERCENT
    ]
    # Naming the only cause of a category would repeat the category, except in `other`.
    if len(shares) > 1 or (shares and category == "other"):
        yield Paragraph(f"parts: {join_phrases(shares)}", role="dim", indent=4)


def _named_excerpts(
    category: str, account: Sequence[AccountEntry], total_ms: float
) -> Iterator[Excerpt]:
    if not total_ms:
        return
    # Times with the same name inside steps and between steps are added up.
    ms_by_name: dict[tuple[str, Role], float] = defaultdict(float)
    for entry in account:
        for part in entry.parts or ():
            if entry.category == category and part.name is not None:
                role: Role = "code" if part.function else "plain"
                ms_by_name[_part_words(part), role] += part.ms
    largest = sorted(ms_by_name.items(), key=lambda pair: -pair[1])[:_MAX_PARTS]
    # Only a function's self time counts: functions that it calls are listed themselves.
    own: dict[Role, str] = {"code": " self time"}
    for (text, role), time in largest:
        share = 100 * time / total_ms
        if share >= _MIN_NAMED_PERCENT:
            yield Excerpt(text, f"{percent(share)}{own.get(role, '')}", role)


def _part_words(part: AccountPart) -> str:
    where = ""
    if part.file is not None:
        file = part.file.replace("\\", "/").rpartition("/")[2]
        where = f" ({file})" if part.line is None else f" ({file}:{part.line})"
    if part.detail in PART_PREFIXES:
        return f"{PART_PREFIXES[part.detail]} {part.name}"
    detail = "" if part.detail is None else f", most of it in {part.detail}"
    name = "top level" if part.name == MODULE else plain_name(part.name or "")
    return f"{name}{where}{detail}"


def _categories_not_recorded(
    document: Document, page: OverviewPageResult
) -> Iterator[Paragraph]:
    for missing, names in _unrecorded_categories(page).items():
        text = f"Not recorded: {'; '.join(_unrecorded_titles(names))}. {missing.reason}"
        pipeline = document.input_pipeline
        if names == ["input"] and not isinstance(pipeline, Unavailable):
            max_percent = pipeline.input_at_most_percent
            text += (
                ""
                if max_percent is None
                else f" Input takes at most {percent(max_percent)}."
            )
        # Without a framework, no framework's tracer could show the device work.
        if missing.code in _NO_DEVICE and not document.is_plain:
            text += f" {missing.remedy}"
        yield Paragraph(text, role="dim")


def unrecorded_text(document: Document) -> str:
    """Write which categories were not recorded; empty if there are none.

    Without a device, the report's first lines already say that there is none.
    """
    page = document.overview
    if isinstance(page, Unavailable):
        return ""
    titles = [
        title
        for missing, names in _unrecorded_categories(page).items()
        if missing.code not in _NO_DEVICE
        for title in _unrecorded_titles(names)
    ]
    return f"Not recorded: {'; '.join(titles)}." if titles else ""


def _unrecorded_categories(page: OverviewPageResult) -> dict[Missing, list[str]]:
    """Return the unmeasured categories for each reason."""
    why: dict[Missing, list[str]] = {}
    absent = {entry.field: entry for entry in page.missing}
    for name in CATEGORY_NAMES:
        missing: Missing | None = absent.get(f"breakdown_ms.{name}")
        if name not in page.breakdown_ms and missing is not None:
            why.setdefault(msgspec.structs.replace(missing, field=""), []).append(name)
    return why


def _unrecorded_titles(names: Sequence[str]) -> list[str]:
    if not set(names) >= _ONLY_OF_DEVICES:
        return [CATEGORY_NAMES[name] for name in names]
    others = [CATEGORY_NAMES[name] for name in names if name not in _OF_DEVICES]
    return [*others, "all device work (launches, copies, compute)"]


def _naming_advice(document: Document, page: OverviewPageResult) -> Iterator[Paragraph]:
    """Write how to name unexplained time, unless a finding already says so."""
    has_advice = any(
        action.cause in _NAMING
        for finding in document.findings
        if finding.status == "fail"
        for action in finding.actions
    )
    total_ms = sum(page.breakdown_ms.values())
    unknown = page.breakdown_detail_ms.get("unexplained") or 0.0
    if has_advice or 100 * unknown < _MIN_NAMED_PERCENT * total_ms or not total_ms:
        return
    functions = any(
        part.file is not None for entry in page.account for part in entry.parts or ()
    )
    remedy = _ANNOTATE if functions else _RECORD_FUNCTIONS
    if document.recorder == NSIGHT:
        remedy = _NAME_RANGES
    yield Paragraph(f"To name the unexplained time: {remedy}")


#: Causes of findings whose actions help to name unexplained time.
_NAMING: Final = frozenset({"unexplained", "annotate", "damaged", "unblocked"})
_ANNOTATE: Final = "annotate the work in that time (with ss.Trace('name'):)."
_NAME_RANGES: Final = (
    "put NVTX ranges around the work in that time, and record with `nsys profile "
    "--trace=cuda,nvtx,osrt`."
)
_RECORD_FUNCTIONS: Final = (
    "record the program's functions, as stepscope run -- python … does, or annotate "
    "the work in that time (with ss.Trace('name'):)."
)


def step_parts(document: Document) -> Iterator[Part]:
    """Write the number of steps, their duration, and which steps are special."""
    page = document.overview
    if isinstance(page, Unavailable):
        return
    detection = page.step_detection
    if detection.source is None:
        why = next((entry for entry in page.missing if entry.code == "NO_STEPS"), None)
        yield Paragraph("No steps." if why is None else f"No steps. {why.reason}")
        if why is not None and document.recorder == NSIGHT:
            yield Paragraph(why.remedy)
        else:
            yield Paragraph(Remedy.MARK_EACH_STEP)
            commands = Remedy.MARK_EACH_STEP.commands_for(document.frameworks)
            yield from map(Code, commands)
        return
    source = SOURCE_TEXTS.get(detection.source, detection.source)
    yield Paragraph(
        f"{len(page.steps)} steps, {source} (confidence {detection.confidence:.2f})"
    )
    yield from _statistics_paragraphs(page)
    several = len(document.profile.hosts) > 1
    for host in document.profile.hosts:
        durations = tuple(step.duration_ms for step in page.steps if step.host == host)
        if len(durations) >= _MIN_DRAWN_STEPS:
            yield Series(f"{host}: " if several else "", durations)
    if special := _special_steps(page):
        yield Paragraph(" · ".join(special), role="dim")


def _special_steps(page: OverviewPageResult) -> list[str]:
    numbers_by_flag: dict[str, dict[str, None]] = defaultdict(dict)
    for step in page.steps:
        number = "?" if step.step is None else str(step.step)
        for flag in step.flags:
            if flag not in _USUAL_FLAGS:
                numbers_by_flag[flag][number] = None
    texts = []
    for flag, numbers in numbers_by_flag.items():
        listed = f"{'step' if len(numbers) == 1 else 'steps'} {', '.join(numbers)}"
        if len(numbers) > _MAX_STEP_NUMBERS:
            listed = f"{len(numbers)} steps"
        words = flag.replace("open_end", "unknown end").replace("_", " ")
        texts.append(f"{words}: {listed}")
    return texts


def _statistics_paragraphs(page: OverviewPageResult) -> Iterator[Paragraph]:
    wall = page.step_time_ms
    names = ("mean", "median", "p95", "min", "max")
    numbers = {name: getattr(wall, name) for name in names}
    if len(set(numbers.values())) == 1:
        numbers = {"wall": wall.mean}
    known = {name: value for name, value in numbers.items() if value is not None}
    text = " · ".join(f"{name} {ms(value)}" for name, value in known.items())
    if text:
        yield Paragraph(text)
    batches = sorted({step.batches for step in page.steps if step.batches})
    if page.batch_time_ms is not None and batches[-1] > 1:
        fewest, highest = batches[0], batches[-1]
        each = f"{highest}" if fewest == highest else f"{fewest} to {highest}"
        time = ms(page.batch_time_ms)
        yield Paragraph(f"{each} batches per step, {time} per batch", role="dim")
    device = page.device_step_time_ms
    if device is not None and device.mean is not None:
        mean = ms(device.mean)
        what = "mean time from the first to the last device activity of a step"
        yield Paragraph(f"{what}: {mean}", role="dim")


def host_table(document: Document) -> Iterator[Table]:
    """Write one row per host if the run has several hosts."""
    page = document.overview
    names = document.profile.hosts
    if len(names) < 2 or isinstance(page, Unavailable):
        return
    measured = {host.host: host for host in page.by_host}
    rows = tuple(_host_row(name, measured.get(name)) for name in names)
    header = ("host", "steps", "mean step", "input", "largest")
    yield Table(header, rows, left=frozenset({0, 4}))


def _host_row(name: str, host: HostSummary | None) -> tuple[str, ...]:
    if host is None:
        return name, "0", "–", "–", "–"
    summary = host.summary
    mean, shares = summary.step_time_ms.mean, summary.breakdown_percent
    known = {category: share for category, share in shares.items() if share is not None}
    if not mean or not known:
        return name, "0", "–", "–", "–"
    largest = max(known, key=lambda category: known[category])
    text = f"{CATEGORY_NAMES[largest]} {percent(known[largest])}"
    fetched = percent(known["input"]) if "input" in known else "–"
    return name, f"{summary.step_count}", ms(mean), fetched, cut(text, 34)
