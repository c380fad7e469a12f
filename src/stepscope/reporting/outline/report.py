"""A whole report as an outline: the verdict first, then its evidence.

A section is a function from the document to parts; `SECTIONS` lists them in order.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final

from stepscope.remedies import CAUSES_OF_SILENT_DEVICES, NSIGHT, Remedy
from stepscope.reporting.outline.findings import (
    checklist_parts,
    doubt_parts,
    unknown_in_short,
)
from stepscope.reporting.outline.parts import (
    Break,
    Bullets,
    Code,
    Heading,
    More,
    Paragraph,
    Title,
)
from stepscope.reporting.outline.step_time import (
    host_table,
    largest_categories,
    step_parts,
    where_time_went,
)
from stepscope.reporting.outline.tools import (
    collective_parts,
    input_pipeline,
    memory_parts,
    request_parts,
    top_annotations,
    top_kernels,
    top_ops,
)
from stepscope.reporting.words.checks import joint_gain_text, most_valuable_findings
from stepscope.reporting.words.names import (
    STEP_TIME,
    as_sentence,
    percent,
    time_heading,
)
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from stepscope.reporting.document import Document
    from stepscope.reporting.envelope import Device
    from stepscope.reporting.outline.parts import Outline, Part

    #: Heading of a section, and its parts; a section without parts is left out.
    Section = tuple[str, Callable[[Document], Iterable[Part]]]

_MAX_HOSTS: Final = 4
#: Remedy that applies only if the tracer of a framework recorded the run.
_OF_FRAMEWORKS: Final = Remedy.FIND_CUPTI
#: Heading of the section on missing data.
UNSEEN: Final = "What could not be seen"
#: Minimum percentage that is written as 100 %.
_MIN_WHOLE_PERCENT: Final = 99.95
#: The share of the peak is shown if known for this percentage of device time.
_MIN_COVERED_PERCENT: Final = 25.0


def _header_parts(document: Document) -> Iterator[Part]:
    profile = document.profile
    named = ", ".join(profile.hosts[:_MAX_HOSTS])
    count = len(profile.hosts)
    more = f" and {count - _MAX_HOSTS} more" if count > _MAX_HOSTS else ""
    hosts = f"host {named}" if count == 1 else f"{count} hosts: {named}{more}"
    ranks = ""
    if profile.processes is not None and profile.processes > count:
        known = [profile.ranks[host] for host in profile.hosts if host in profile.ranks]
        ranks = f"{count} of {profile.processes} ranks"
        if len(known) == 1:
            ranks = f"rank {known[0]} of {profile.processes}"
    facts = " · ".join(filter(None, (hosts, ranks, _devices_text(document))))
    yield Title(profile.run)
    yield Paragraph(facts, role="dim", indent=0)


def _devices_text(document: Document) -> str:
    devices = document.profile.devices
    used = [device for device in devices if device.activities]
    if document.not_understood is not None and not used:
        return "unsupported device"
    if not devices:
        unknown = document.silent_device is not None or _has_no_timeline(document)
        return "devices not recorded" if unknown else "CPU only"
    names = ((_device_name(device, document), device) for device in used or devices)
    kinds = Counter(
        f"{name}, compute capability {device.compute_capability}"
        if device.compute_capability
        else name
        for name, device in names
    )
    text = ", ".join(f"{count} × {kind}" for kind, count in kinds.items())
    silent = document.silent_device is not None or document.not_understood is not None
    if not used and not silent and not _has_no_timeline(document):
        return f"CPU only; not used: {text}"
    idle = len(devices) - len(used)
    # Each process lists all devices of its machine, also devices of other processes.
    shared = document.profile.processes is not None and document.profile.processes > 1
    if not used or not idle or shared:
        return text
    return f"{text}; {idle} more without recorded work"


def _damage_parts(document: Document) -> Iterator[Part]:
    for doubt in document.quality:
        if doubt.severity == "error":
            host = "" if doubt.host is None else f"{doubt.host}: "
            remedy = f" {doubt.remedy}" if doubt.remedy else ""
            text = f"! {host}{as_sentence(doubt.message)}{remedy}"
            yield Paragraph(text, role="bad", indent=0)


def _silent_device(document: Document) -> Iterator[Part]:
    unknown = document.not_understood
    if unknown is not None:
        text = "! The profile contains work of an unsupported device."
        yield Paragraph(text, role="bad", indent=0)
        yield Paragraph(f"{unknown.reason} {unknown.remedy}")
        return
    sign = document.silent_device
    if sign is None:
        return
    used = f"The program used a device ({sign}), but no kernel was recorded: this "
    if document.device_in_doubt:
        used = (
            f"The machine has a device ({sign}), but no recorded call launched work on "
            "the device: it may have been unused. If the program used the device, this "
        )
    text = "! The device's work is not in this profile."
    yield Paragraph(text, role="bad", indent=0)
    yield Paragraph(
        f"{used}report shows only the host's work. Usual causes, with remedies:"
    )
    why = document.kernels
    by_nsight = document.recorder == NSIGHT
    if by_nsight and isinstance(why, Unavailable):
        # Another usual cause is that Nsight Systems did not trace the device.
        yield Bullets((why.remedy,))
    known = why.remedy if isinstance(why, Unavailable) else None
    remedies: tuple[Remedy, ...] = CAUSES_OF_SILENT_DEVICES
    if known in (*remedies, Remedy.USE_TRACER_OF_DEVICE):
        # The producer reported the cause, or this kind of device needs another tracer.
        remedies = (Remedy(known),)
    for remedy in remedies:
        if not by_nsight or remedy != _OF_FRAMEWORKS:
            yield Bullets((remedy.words_on_windows() if document.windows else remedy,))
            yield from map(Code, () if document.windows else remedy.commands)


def _verdict_parts(document: Document, *, is_short: bool = False) -> Iterator[Part]:
    yield Paragraph(document.headline.text, strong=True)
    context = hardware_text(document)
    if context is not None:
        yield Paragraph(context, role="dim", indent=0)
    valuable = most_valuable_findings(
        document.findings,
        first=document.headline.finding,
        frameworks=document.frameworks,
    )
    for advice in valuable:
        yield Paragraph(f"{advice.label} ({advice.finding}): {advice.text}", indent=0)
        if is_short and advice.code:
            yield Code(advice.code)
    joint = joint_gain_text(document.together)
    if valuable and joint is not None:
        yield Paragraph(joint, indent=0)
    unsure = sum(finding.status == "cannot_tell" for finding in document.findings)
    if unsure and not (valuable or document.is_plain or is_short):
        count = "One check" if unsure == 1 else f"{unsure} checks"
        yield Paragraph(f"{count} could not reach a verdict.", indent=0)


def _device_name(device: Device, document: Document) -> str:
    if device.name is not None:
        return device.name
    known = (
        ()
        if isinstance(document.overview, Unavailable)
        else document.overview.environment.devices
    )
    place = device.host, device.device
    types = (entry.type for entry in known if (entry.host, entry.device) == place)
    return next(types, None) or device.type


def hardware_text(document: Document) -> str | None:
    """Write the hardware of a run and how much the run used; None if unknown."""
    hardware = document.hardware
    used = [device for device in document.profile.devices if device.activities]
    kinds = Counter(_device_name(device, document) for device in used)
    parts = [f"{count} × {kind}" for kind, count in kinds.items()]
    if hardware.cores is not None:
        parts.append(f"{hardware.cores} {'core' if hardware.cores == 1 else 'cores'}")
    covered = hardware.peak_covered_percent
    if (
        hardware.peak_percent is not None
        and covered is not None
        and covered >= _MIN_COVERED_PERCENT
    ):
        possessive = "its" if len(used) == 1 else "their"
        known = (
            ""
            if covered >= _MIN_WHOLE_PERCENT
            else f" (known for {percent(covered)} of the time)"
        )
        parts.append(
            f"{possessive} kernels reach {percent(hardware.peak_percent)} of the peak "
            f"of the units that they use{known}"
        )
    # The head of the page already names the devices.
    if len(parts) == len(kinds):
        return None
    return f"On {', '.join(parts)}."


_FIRST: Final[tuple[Section, ...]] = (
    ("", _header_parts),
    ("", _damage_parts),
    ("", _silent_device),
)
#: Sections of a short report, which fits on a screen.
SHORT_SECTIONS: Final[tuple[Section, ...]] = (
    *_FIRST,
    ("", partial(_verdict_parts, is_short=True)),
    (STEP_TIME, largest_categories),
    (UNSEEN, unknown_in_short),
    ("", lambda _: (More("stepscope report PATH --full"),)),
)
#: Sections of a recording without any verdict, for one common reason.
_WITHOUT_VERDICTS: Final[tuple[Section, ...]] = (
    *_FIRST,
    ("", _verdict_parts),
    (STEP_TIME, where_time_went),
)
SECTIONS: Final[tuple[Section, ...]] = (
    *_WITHOUT_VERDICTS,
    ("Steps", step_parts),
    ("Hosts", host_table),
    ("Findings", checklist_parts),
    ("Input", input_pipeline),
    ("Requests", request_parts),
    ("Memory", memory_parts),
    ("Collectives", collective_parts),
    ("Top ops", top_ops),
    ("Top kernels", top_kernels),
    ("Time per annotation", top_annotations),
    (UNSEEN, doubt_parts),
)
#: Sections left out if a file has no times: all would give the same reason.
_OF_TIMES: Final = (STEP_TIME, "Findings", "Top ops")


def report_outline(
    document: Document, *, sections: tuple[Section, ...] = SECTIONS
) -> Outline:
    """Return the outline of all sections that are not empty."""
    first, *other_findings = document.findings or (None,)
    if (
        first is not None
        and first.status == "cannot_tell"
        and all(finding.unavailable == first.unavailable for finding in other_findings)
        and isinstance(document.overview, Unavailable)
        and isinstance(document.memory, Unavailable)
    ):
        sections = _WITHOUT_VERDICTS
    elif _has_no_timeline(document):
        # Kernels that were measured alone are judged without times of steps.
        judged = any(finding.status == "fail" for finding in document.findings)
        left_out = set(_OF_TIMES)
        if judged and isinstance(document.memory, Unavailable):
            left_out.discard("Findings")
        # The peak of a memory is the verdict's evidence: a short report shows it too.
        shown = sections if isinstance(document.memory, Unavailable) else SECTIONS
        sections = tuple(entry for entry in shown if entry[0] not in left_out)
    outline: list[Part] = []
    overview = document.overview
    for heading, section in sections:
        body = tuple(section(document))
        if body and heading:
            title = heading
            if heading == STEP_TIME and not isinstance(overview, Unavailable):
                title = time_heading(overview.window)
            outline.append(Heading(title))
        elif body and outline:
            outline.append(Break())
        outline += body
    return tuple(outline)


def _has_no_timeline(document: Document) -> bool:
    overview = document.overview
    return isinstance(overview, Unavailable) and overview.code == "FORMAT"
