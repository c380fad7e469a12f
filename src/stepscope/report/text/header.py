"""The head of the page: what was recorded, and a used device without recorded work."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from stepscope.remedies import CAUSES_OF_SILENT_DEVICES, Remedy
from stepscope.report.page import Piece, cut_middle, line, wrapped
from stepscope.report.words.hardware import device_name
from stepscope.report.words.names import sentence
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.report.document import Document
    from stepscope.report.envelope import Device
    from stepscope.report.page import Line

_MOST_HOSTS = 4
#: The cause that only a framework's own tracer can have.
_OF_FRAMEWORKS = Remedy.FIND_CUPTI


def header(document: Document, width: int) -> list[Line]:
    """Write program, run, hosts and devices in a line or two."""
    profile = document.profile
    named = ", ".join(profile.hosts[:_MOST_HOSTS])
    count = len(profile.hosts)
    more = f" and {count - _MOST_HOSTS} more" if count > _MOST_HOSTS else ""
    hosts = f"host {named}" if count == 1 else f"{count} hosts: {named}{more}"
    facts = " · ".join(filter(None, (hosts, _rank(document), _devices(document))))
    return [
        line(
            Piece("stepscope", "title"),
            Piece(" · "),
            Piece(cut_middle(profile.run, width - 12), "title"),
        ),
        *wrapped(facts, width, indent=0, role="dim"),
    ]


def _own_remedy(document: Document) -> str | None:
    """Return what to do about a device without work in a recording of Nsight Systems.

    It may not have been told to record that; no framework's tracer is at fault.
    """
    why = document.kernels
    remedy = why.remedy if isinstance(why, Unavailable) else ""
    return remedy if "`nsys " in remedy else None


def _rank(document: Document) -> str:
    """Return which processes of a larger run these are; empty where they are all."""
    profile = document.profile
    if profile.processes is None or profile.processes <= len(profile.hosts):
        return ""
    ranks = [profile.ranks[host] for host in profile.hosts if host in profile.ranks]
    if len(ranks) == 1:
        return f"rank {ranks[0]} of {profile.processes}"
    return f"{len(profile.hosts)} of {profile.processes} ranks"


def _devices(document: Document) -> str:
    devices = document.profile.devices
    used = [device for device in devices if device.activities]
    if document.not_understood is not None and not used:
        return "device not understood"
    if not devices:
        unknown = document.silent_device is not None or _without_timeline(document)
        return "devices not recorded" if unknown else "CPU only"
    kinds = Counter(_kind(device, document) for device in used or devices)
    text = ", ".join(f"{count} × {kind}" for kind, count in kinds.items())
    silent = document.silent_device is not None or document.not_understood is not None
    if not used and not silent and not _without_timeline(document):
        return f"CPU only; not used: {text}"
    idle = len(devices) - len(used)
    # Each process lists all devices of its machine, also those of other processes.
    shared = document.profile.processes is not None and document.profile.processes > 1
    if not used or not idle or shared:
        return text
    return f"{text}; {idle} more without recorded work"


def _without_timeline(document: Document) -> bool:
    """Return whether the format records no work, neither of devices nor of hosts."""
    overview = document.overview
    return isinstance(overview, Unavailable) and overview.code == "FORMAT"


def _kind(device: Device, document: Document) -> str:
    """Return the name of a device, with its compute capability where it has one."""
    capability = device.compute_capability
    kind = device_name(device, document)
    return f"{kind}, compute capability {capability}" if capability else kind


def damage(document: Document, width: int) -> list[Line]:
    """Write the errors of the recording that leave the numbers incomplete."""
    lines: list[Line] = []
    for doubt in document.quality:
        if doubt.severity == "error":
            host = "" if doubt.host is None else f"{doubt.host}: "
            remedy = f" {doubt.remedy}" if doubt.remedy else ""
            text = f"! {host}{sentence(doubt.message)}{remedy}"
            lines += wrapped(text, width, indent=0, role="bad")
    return lines


def silent_device(document: Document, width: int) -> list[Line]:
    """Write the first line of a report on a used device without recorded work."""
    unknown = document.not_understood
    if unknown is not None:
        return [
            line(Piece("! The work of a device is not understood.", "bad")),
            *wrapped(f"{unknown.reason} {unknown.remedy}", width, indent=2),
        ]
    sign = document.silent_device
    if sign is None:
        return []
    used = f"The program used a device ({sign}), but no kernel was recorded: what "
    if document.device_in_doubt:
        used = (
            f"A device is there ({sign}), and no recorded call gave it work: it may "
            "have had none in that time. If the program used it, what "
        )
    lines = [
        line(Piece("! The device's work is not in this profile.", "bad")),
        *wrapped(
            f"{used}follows is the host's side only. Usual causes, and what to do:",
            width,
            indent=2,
        ),
    ]
    own = _own_remedy(document)
    lines += [] if own is None else wrapped(f"• {own}", width, indent=2)
    for remedy in CAUSES_OF_SILENT_DEVICES:
        if own is not None and remedy == _OF_FRAMEWORKS:
            continue
        lines += wrapped(f"• {remedy}", width, indent=2)
        lines += [line("      ", Piece(command, "code")) for command in remedy.commands]
    return lines
