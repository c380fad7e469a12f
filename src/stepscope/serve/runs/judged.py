"""Findings of a profile, as records and sentences for the page and for clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.catalogue import OWNER_TEXTS
from stepscope.advice.checklist import checklist
from stepscope.advice.registry import RULES
from stepscope.analysis.ops.selection import op_names
from stepscope.analysis.steps.rows import step_number_at
from stepscope.analysis.timeline.best_span import best_spot
from stepscope.derive.frameworks import frameworks_used
from stepscope.reporting.plain import plain, plain_fields
from stepscope.reporting.words import findings as finding_words
from stepscope.reporting.words.checks import (
    joint_gain_text,
    most_valuable_findings,
    nothing_to_fix_text,
    stage_line,
)
from stepscope.reporting.words.predictions import predicted_gain, prediction_text

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.analysis.tools import ProfileWithTools
    from stepscope.derive.facts.evidence import Evidence
    from stepscope.reporting.compose import Judgement
    from stepscope.reporting.plain import Plain

#: Rule → tools that show the numbers of the rule.
_PAGES: Final = {rule.item.id: rule.item.tools for rule in RULES}


def findings_record(profile: ProfileWithTools, judged: Judgement) -> dict[str, Plain]:
    """Return the headline, the most valuable findings, the checklist, all findings."""
    frameworks = profile.of_run(frameworks_used)
    spots = _EvidenceSpots(profile)
    by_id = {finding.id: finding for finding in judged.findings}
    valuable = most_valuable_findings(
        judged.findings, first=judged.headline.finding, frameworks=frameworks
    )
    return {
        "frameworks": plain(frameworks),
        "headline": plain(judged.headline),
        "together": (
            joint_gain_text(judged.together, by_title=True) if valuable else None
        ),
        "nothing_to_fix": None if valuable else nothing_to_fix_text(judged.findings),
        "verdict": [
            {
                "finding": tip.finding,
                "label": tip.label,
                "found": tip.found,
                "action": tip.action,
                "gain": tip.gain,
                "promise": tip.promise,
                "code": tip.code,
                "place": spots.describe_place(by_id[tip.finding].evidence[0])
                if by_id[tip.finding].evidence
                else None,
                "pages": list(_PAGES[tip.finding]),
            }
            for tip in valuable
        ],
        "stages": [
            {
                **plain_fields(stage),
                "line": stage_line(stage, judged.findings, named=False),
                "fails": stage.fails,
                "worst": stage.worst,
            }
            for stage in checklist(judged.findings)
        ],
        "findings": [
            {
                **plain_fields(finding),
                "words": _finding_texts(finding, frameworks, spots),
            }
            for finding in judged.findings
        ],
    }


class _EvidenceSpots:
    """Places on other pages that show the evidence of findings."""

    def __init__(self, profile: ProfileWithTools) -> None:
        self._profile = profile
        self._ops = op_names(profile)

    def describe_place(self, evidence: Evidence) -> dict[str, Plain]:
        spot = best_spot(
            self._profile,
            evidence.host,
            device=evidence.device,
            track=evidence.track,
            start_ps=evidence.start_ps,
            end_ps=evidence.end_ps,
            names=evidence.ops,
        )
        return {
            "text": finding_words.evidence_text(evidence),
            "op": next((name for name in evidence.ops if name in self._ops), None),
            "step": step_number_at(self._profile, evidence.host, evidence.start_ps),
            "host": evidence.host,
            **plain_fields(spot),
        }


def _finding_texts(
    finding: Finding, frameworks: tuple[str, ...], spots: _EvidenceSpots
) -> Plain:
    failed = finding.status == "fail"
    absent = finding.unavailable
    actions = finding_words.fitting_actions(finding, frameworks)
    gain = predicted_gain(finding, actions) or finding_words.gain_text(finding)
    return {
        "shown": finding.shown_status,
        "status": finding_words.status_text(finding),
        "headline": finding_words.finding_headline(finding),
        # A finding that does not apply has no remedy.
        "remedy": absent.remedy if absent and finding.status == "cannot_tell" else None,
        "reasons": finding_words.causes_text(finding) if failed else None,
        "names": finding_words.part_shares(finding) if failed else None,
        "pattern": finding_words.pattern_sentence(finding),
        "owners": [OWNER_TEXTS[owner] for owner in finding.owners],
        "gain": gain if failed else None,
        "standing": finding_words.evidence_basis_text(finding)
        if failed or finding.shown_status == "unconfirmed"
        else None,
        "threshold": finding_words.threshold_text(finding),
        "numbers": [list(row) for row in finding_words.number_rows(finding)],
        "evidence": [spots.describe_place(evidence) for evidence in finding.evidence],
        "pages": list(_PAGES[finding.id]),
        "actions": [
            {**plain_fields(action), "then": prediction_text(finding, action)}
            for action in actions
        ],
    }
