"""Pages of text about literal runs, for tests of several sections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepscope.analysis.tools import ProfileWithTools
from stepscope.cli.output import Progress
from stepscope.reporting.compose import compose_report
from stepscope.reporting.outline import as_text
from stepscope.reporting.outline.report import report_outline
from stepscope.reporting.page import plain_text

if TYPE_CHECKING:
    from stepscope.reporting.document import Document

#: Length of a step of `host_loop`, in µs.
STEP = 1000


def document_of(*traces: Any) -> Document:
    """All results and findings of a run."""
    profile = ProfileWithTools("run", {one.host: one for one in traces})
    return compose_report(profile, Progress(stages=9))


def page(*traces: Any, width: int = 90) -> str:
    """The page of a run."""
    return plain_text(as_text.render(report_outline(document_of(*traces)), width=width))


def section(text: str, heading: str) -> list[str] | None:
    """The lines below a heading; None where the page has no such section."""
    lines = text.splitlines()
    if heading not in lines:
        return None
    begin = lines.index(heading) + 1
    return lines[begin : lines.index("", begin)]


def host_loop(steps: int = 12, *, fetch: int = 300) -> list[Any]:
    """Marked steps on a host that fetch, then compute."""
    return [
        line
        for number in range(steps)
        for line in (
            ("main", "train", STEP * number, 990, {"_r": 1, "step_num": number}),
            ("main", "IteratorGetNext", STEP * number + 10, fetch),
            ("main", "a/MatMul:MatMul", STEP * number + fetch + 20, 960 - fetch),
        )
    ]
