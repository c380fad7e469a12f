"""What of a report goes into a tracker: numbers, and the table of findings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from stepscope.report.words.findings import headline
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.advice.finding import Finding
    from stepscope.report.document import Document

#: Names of numbers begin so: trackers group by it.
PREFIX: Final = "stepscope/"
FINDING_COLUMNS: Final = (
    *("finding", "status", "severity", "share_percent", "ms_per_step"),
    *("saving_low_ms", "saving_high_ms", "text"),
)
#: What is shown of the findings.
_SHOWN: Final = frozenset({"fail", "cannot_tell"})

Cell = str | float | None


class Logged(NamedTuple):
    """What is logged.

    Attributes:
        run: Name of the recorded run.
        numbers: Numbers by name.
        findings: Rows of the table of findings, as `FINDING_COLUMNS`.
        files: Files of the artifact: the profile, and the report.
    """

    run: str
    numbers: dict[str, float]
    findings: list[list[Cell]]
    files: tuple[Path, ...]


def numbers(document: Document) -> dict[str, float]:
    """Return the numbers of a report by name; what is not known is left out."""
    overview = document.overview
    found: dict[str, float | None] = {
        "findings_failed": sum(it.status == "fail" for it in document.findings)
    }
    if not isinstance(overview, Unavailable):
        step = overview.step_time_ms
        found |= {
            "steps": overview.step_count,
            "step_time_ms": step.mean,
            "step_time_median_ms": step.median,
            "step_time_p95_ms": step.p95,
            "input_percent": overview.input_percent,
            "device_busy_percent": overview.device_execution_percent,
            **{
                f"breakdown_percent/{category}": share
                for category, share in overview.breakdown_percent.items()
            },
        }
    memory = document.memory
    if not isinstance(memory, Unavailable):
        peaks = memory.rows["peak_bytes"].drop_nulls().to_list()
        found["memory_peak_bytes"] = max(peaks, default=None)
    return {PREFIX + name: it for name, it in found.items() if it is not None}


def finding_rows(document: Document) -> list[list[Cell]]:
    """Return what failed or could not be told, in the order of the report."""
    return [_row(it) for it in document.findings if it.status in _SHOWN]


def _row(finding: Finding) -> list[Cell]:
    saving = finding.saving_ms
    return [
        finding.id,
        finding.status,
        finding.severity,
        finding.share_percent,
        finding.ms_per_step,
        None if saving is None else saving.low,
        None if saving is None else saving.high,
        headline(finding),
    ]
