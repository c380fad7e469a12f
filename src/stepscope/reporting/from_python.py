"""`ss.report`: the report of a profile as an object of Python.

report = ss.report("logs")
print(report.headline)
for finding in report.findings: ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.advice.finding import SEVERITIES
from stepscope.frozen import Frozen
from stepscope.reporting.compose import compose_report
from stepscope.reporting.outline import as_markdown, as_text
from stepscope.reporting.outline.report import SECTIONS, SHORT_SECTIONS, report_outline
from stepscope.reporting.words.checks import most_valuable_findings
from stepscope.session import open_profile

if TYPE_CHECKING:
    from os import PathLike

    from stepscope.advice.finding import Finding, Severity
    from stepscope.reporting.document import Document
    from stepscope.reporting.outline.parts import Outline


class Report(Frozen, frozen=True):
    """The report of one profile.

    Attributes:
        document: All results, findings and doubts of the report.
    """

    document: Document

    @property
    def headline(self) -> str:
        """The first sentence: the largest cause of lost time."""
        return self.document.headline.text

    @property
    def first_advice(self) -> str | None:
        """What to change first and the predicted gain, then a line of code if known."""
        valuable = most_valuable_findings(
            self.findings,
            first=self.document.headline.finding,
            frameworks=self.document.frameworks,
        )
        if not valuable:
            return None
        first = valuable[0]
        advice = f"{first.label} ({first.finding}): {first.text}"
        return f"{advice}\n{first.code}" if first.code else advice

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Verdicts of all rules, in the order in which to act on them."""
        return self.document.findings

    def failed_findings(self, severity: Severity = "warn") -> tuple[Finding, ...]:
        """Return the findings that fail with at least this severity."""
        return failing_findings(self.findings, severity)

    def to_text(self, *, width: int = 100, full: bool = False) -> str:
        """Return what `stepscope report` prints.

        Args:
            width: Characters of a line.
            full: Whether to include all sections.
        """
        return as_text.render_page(self._report_outline(full=full), width=width)

    def to_markdown(self, *, full: bool = False) -> str:
        """Return the report as Markdown.

        Args:
            full: Whether to include all sections.
        """
        return as_markdown.render(self._report_outline(full=full))

    def to_json(self) -> str:
        """Return the report as JSON, with the results of all tools."""
        from stepscope.reporting import to_json  # noqa: PLC0415 - needed only here

        return to_json.render_document(self.document).decode()

    def __repr__(self) -> str:
        """Return the short report as text, as a notebook without Markdown shows it."""
        return self.to_text()

    def _repr_markdown_(self) -> str:
        """Return the short report as a notebook shows it."""
        return self.to_markdown()

    def _report_outline(self, *, full: bool) -> Outline:
        sections = SECTIONS if full else SHORT_SECTIONS
        return report_outline(self.document, sections=sections)


def report(
    *paths: str | PathLike[str], kernels: str | PathLike[str] | None = None
) -> Report:
    """Read a profile, as `ss.open` does, and judge it.

    Args:
        paths: Paths or URLs: a log directory (its newest run), a run directory, or
            files.
        kernels: Table (CSV) or report of Nsight Compute; None without metrics.

    Raises:
        BadInput: A path cannot be read as a profile, or `kernels` as metrics.
    """
    return Report(compose_report(open_profile(*paths, kernels=kernels)))


def failing_findings(
    findings: tuple[Finding, ...], severity: Severity
) -> tuple[Finding, ...]:
    """Return the findings that fail with at least a severity."""
    grave = SEVERITIES[: SEVERITIES.index(severity) + 1]
    return tuple(it for it in findings if it.status == "fail" and it.severity in grave)
