"""The checklist: all findings by stage, in the order of the optimization guides.

Definition: docs/definitions/judging.md#order-of-findings.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.finding import STATUSES, ShownStatus, Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.advice.finding import Finding

#: Title of each stage.
STAGES: Final[dict[int, str]] = {
    0: "Recording",
    1: "Input",
    2: "Gaps between steps",
    3: "Launches and device use",
    4: "Placement and copies",
    5: "Kernels",
    6: "16-bit precision",
    7: "Compilation",
    8: "Several devices",
    9: "Memory and run",
}


class CheckedStage(msgspec.Struct, frozen=True, kw_only=True):
    """The checks of one stage.

    Attributes:
        stage: Number of the stage in the order of the optimization guides, 0 to 9.
        title: What the checks of the stage are about.
        counts: Number of checks by status, most serious first, without zeros.
        notes: Number of failing checks with severity "info".
        unconfirmed: Number of passing checks whose rules have failed on synthetic
            profiles only.
        findings: Ids of the stage's findings, in order.
    """

    stage: int
    title: str
    counts: dict[Status, int]
    notes: int
    unconfirmed: int
    findings: tuple[str, ...]

    @property
    def fails(self) -> bool:
        """Whether a check of the stage fails with a severity above "info"."""
        return self.counts.get("fail", 0) > self.notes

    @property
    def worst(self) -> ShownStatus:
        """The worst status; "note" or "unconfirmed" if all checks of it are that."""
        worst = next(iter(self.counts))
        if worst == "fail" and not self.fails:
            return "note"
        unseen = worst == "pass" and self.counts[worst] == self.unconfirmed
        return "unconfirmed" if unseen else worst


def checklist(findings: Sequence[Finding]) -> tuple[CheckedStage, ...]:
    """Return the stages that have checks, in the order of the guides."""
    stages = []
    for stage, title in STAGES.items():
        stage_findings = [finding for finding in findings if finding.stage == stage]
        if stage_findings:
            counts = Counter(finding.status for finding in stage_findings)
            stages.append(
                CheckedStage(
                    stage=stage,
                    title=title,
                    counts={one: counts[one] for one in STATUSES if counts[one]},
                    notes=sum(
                        finding.shown_status == "note" for finding in stage_findings
                    ),
                    unconfirmed=sum(
                        finding.shown_status == "unconfirmed"
                        for finding in stage_findings
                    ),
                    findings=tuple(finding.id for finding in stage_findings),
                )
            )
    return tuple(stages)
