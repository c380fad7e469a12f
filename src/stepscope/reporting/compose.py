"""Composition of the report document from a profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

from stepscope.advice.checklist import checklist
from stepscope.advice.engine import DERIVATIONS as OF_RULES
from stepscope.advice.engine import evaluate, signals_of
from stepscope.advice.headline import choose_lead_sentence
from stepscope.advice.predicted_gains import replay_together
from stepscope.analysis.ops.hardware import run_hardware
from stepscope.analysis.results.fitting_remedies import (
    recorder_without_levels,
    with_fitting_remedies,
)
from stepscope.analysis.tools import ToolResults, tool_answers
from stepscope.derive.facts.devices.kernel_limits import measured_alone
from stepscope.derive.frameworks import frameworks_used
from stepscope.derive.model.annotation_calls import annotation_calls
from stepscope.derive.verdicts.recorded_devices import device_signals
from stepscope.frozen import Frozen
from stepscope.remedies import NSIGHT
from stepscope.reporting.document import (
    ALWAYS_REPORTED,
    REPORTED,
    Document,
    Headline,
)
from stepscope.reporting.envelope import describe_profile, recording_doubts
from stepscope.reporting.words.first_sentence import (
    first_sentence,
    measured_sentence,
    peak_sentence,
)
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.advice.explanation import Explanation
    from stepscope.advice.finding import Finding, Recorder
    from stepscope.advice.predicted_gains import Together
    from stepscope.advice.signals import Signals
    from stepscope.derive.profile_data import ProfileData


class Stages(Protocol):
    """Protocol of a receiver of progress messages."""

    def stage(self, what: str) -> None:
        """Announce the next stage; the previous one is finished."""


class Judgement(Frozen, frozen=True, eq=True):
    """Verdicts of the rules on a profile.

    Attributes:
        headline: First sentence of the report.
        findings: Findings in the order in which to act on them.
        together: Joint gain of the costliest findings.
        silent_device: Evidence of a device whose work was not recorded; null if none.
        device_in_doubt: Whether no evidence shows that the program used that device.
        windows: Whether the program ran on Windows.
    """

    headline: Headline
    findings: tuple[Finding, ...]
    together: Together
    silent_device: str | None
    device_in_doubt: bool
    windows: bool


def stage_count(*, is_short: bool = False) -> int:
    """Return the number of stages that `compose_report` announces."""
    return 2 + len(ALWAYS_REPORTED if is_short else REPORTED)


def compose_report(
    profile: ProfileData, shown: Stages | None = None, *, is_short: bool = False
) -> Document:
    """Run every tool of a report and every rule, each once.

    Args:
        is_short: Whether to run only the tools of a short report. Any other tool runs
            when its result is first read.
    """
    announce = (lambda _: None) if shown is None else shown.stage
    announce("Working out")
    known = tool_answers(
        profile,
        ALWAYS_REPORTED if is_short else REPORTED,
        also=OF_RULES if is_short else (*OF_RULES, annotation_calls),
        begun=lambda tool: announce(tool.title),
    )
    results = ToolResults(profile, known)
    announce("Findings")
    judged = _judge_signals(profile, signals_of(profile))
    headline = judged.headline
    alone = not isinstance(profile.of_run(measured_alone), Unavailable)
    if alone or (headline.percent is None and headline.finding is None):
        # If a profile has no times, the headline is about memory, else about kernels.
        sentence = peak_sentence(results["memory_profile"]) or measured_sentence(
            [profile.table(host, "kernel_metrics") for host in profile.hosts]
        )
        if sentence is not None:
            headline = Headline(text=sentence, owner=None, percent=None, finding=None)
    tables = (profile.table(host, "device_activity") for host in profile.hosts)
    return Document(
        profile=describe_profile(profile),
        results=results,
        headline=headline,
        findings=judged.findings,
        together=judged.together,
        checklist=checklist(judged.findings),
        hardware=run_hardware(profile),
        quality=recording_doubts(profile),
        silent_device=judged.silent_device,
        device_in_doubt=judged.device_in_doubt,
        windows=judged.windows,
        not_understood=next(
            (
                table
                for table in tables
                if isinstance(table, Unavailable) and table.code == "UNKNOWN_DEVICE"
            ),
            None,
        ),
        frameworks=profile.of_run(frameworks_used),
        recorder=recorder_without_levels(profile),
    )


def explain_rule(profile: ProfileData, rule: str) -> Explanation:
    """Explain how a rule reached its verdict.

    Raises:
        BadUsage: No rule has this id.
    """
    # Imported late because few commands explain a rule.
    from stepscope.advice.explanation import explanation  # noqa: PLC0415

    profile.prepare(OF_RULES)
    signals = signals_of(profile)
    return explanation(profile, rule, _fitting_findings(profile, signals), signals)


def judge_profile(profile: ProfileData) -> Judgement:
    """Run every rule, and choose the first sentence of the report."""
    profile.prepare(OF_RULES)
    return _judge_signals(profile, signals_of(profile))


def _judge_signals(profile: ProfileData, signals: Signals) -> Judgement:
    findings = _fitting_findings(profile, signals)
    lead = choose_lead_sentence(findings, signals)
    return Judgement(
        headline=Headline(
            text=first_sentence(lead, findings),
            owner=lead.owner,
            percent=lead.percent,
            finding=lead.finding,
        ),
        findings=findings,
        together=replay_together(findings, signals, first=lead.finding),
        silent_device=signals.of(device_signals).sign,
        device_in_doubt=signals.of(device_signals).in_doubt,
        windows=signals.of(device_signals).windows,
    )


def _fitting_findings(profile: ProfileData, signals: Signals) -> tuple[Finding, ...]:
    # Leave out actions that apply only to other recorders than this profile's.
    other: Recorder = (
        "framework" if recorder_without_levels(profile) == NSIGHT else "nsight"
    )
    findings = (
        with_fitting_remedies(profile, finding) for finding in evaluate(signals)
    )
    return tuple(_without_actions_for(finding, other) for finding in findings)


def _without_actions_for(finding: Finding, recorder: Recorder) -> Finding:
    left_out = {one.id for one in finding.actions if one.recorder == recorder}
    if not left_out:
        return finding
    return msgspec.structs.replace(
        finding,
        actions=tuple(one for one in finding.actions if one.recorder != recorder),
        predictions=tuple(
            one for one in finding.predictions if one.action not in left_out
        ),
    )
