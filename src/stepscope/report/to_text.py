"""The report as a page of text: verdict first, then what it rests on.

A section is a function from the document to lines; `SECTIONS` is their order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.report.page import Piece, line
from stepscope.report.text.annotation import top_annotations
from stepscope.report.text.exchanges import exchanges
from stepscope.report.text.findings import findings, verdict
from stepscope.report.text.header import damage, header, silent_device
from stepscope.report.text.input import input_pipeline
from stepscope.report.text.memory import memories
from stepscope.report.text.requests import requests
from stepscope.report.text.steps import hosts, steps, where_time_went
from stepscope.report.text.tops import top_kernels, top_ops
from stepscope.report.text.unseen import unseen
from stepscope.report.words.names import STEP_TIME, time_heading
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.report.document import Document
    from stepscope.report.page import Line

    #: Heading and body; no section where the body has no line.
    Section = tuple[str, Callable[[Document, int], list[Line]]]

#: The verdict and what it is about: the report in short.
FIRST_SECTIONS: Final[tuple[Section, ...]] = (
    ("", header),
    ("", damage),
    ("", silent_device),
    ("", verdict),
    (STEP_TIME, where_time_went),
)
SECTIONS: Final[tuple[Section, ...]] = (
    *FIRST_SECTIONS,
    ("Steps", steps),
    ("Hosts", hosts),
    ("Findings", findings),
    ("Input", input_pipeline),
    ("Requests", requests),
    ("Memory", memories),
    ("Collectives", exchanges),
    ("Top ops", top_ops),
    ("Top kernels", top_kernels),
    ("Time per annotation", top_annotations),
    ("What could not be seen", unseen),
)


def _is_empty(document: Document) -> bool:
    """Return whether one reason is why no check can tell and no page shows anything."""
    first, *others = document.findings or (None,)
    return (
        first is not None
        and first.status == "cannot_tell"
        and all(one.unavailable == first.unavailable for one in others)
        and isinstance(document.overview, Unavailable)
        and isinstance(document.memory, Unavailable)
    )


#: Sections that a file without any times would fill with one and the same reason.
_OF_TIMES: Final = (STEP_TIME, "Findings", "Top ops")


def _has_no_timeline(document: Document) -> bool:
    """Return whether the format holds memory, and no time of a host or a device."""
    overview = document.overview
    return isinstance(overview, Unavailable) and overview.code == "FORMAT"


def render(
    document: Document, *, width: int, sections: tuple[Section, ...] = SECTIONS
) -> list[Line]:
    """Write the sections that are not empty, in lines of at most `width`.

    Names of ops and kernels are shortened to fit; commands to copy are not.
    """
    lines: list[Line] = []
    if _is_empty(document):
        sections = FIRST_SECTIONS
    elif _has_no_timeline(document):
        sections = tuple(one for one in sections if one[0] not in _OF_TIMES)
    for heading, section in sections:
        body = section(document, width)
        if not body:
            continue
        if heading:
            lines += [line(Piece(_named(heading, document), "heading"))]
        lines += [*body, line()]
    return lines


def _named(heading: str, document: Document) -> str:
    """Return the heading of a section, where it is about time by what that is of."""
    overview = document.overview
    if heading != STEP_TIME or isinstance(overview, Unavailable):
        return heading
    return time_heading(overview.window)
