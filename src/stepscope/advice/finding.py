"""`Finding`: the verdict of one rule on one profile, in numbers.

The page, the command line, CI gates and programs that read JSON all use this record.
`reporting/` turns the numbers of a finding into sentences.

Definition: docs/definitions/judging.md#the-record-of-a-finding.
"""

from __future__ import annotations

from html import escape
from typing import Final, Literal

import msgspec

from stepscope.derive.facts.evidence import CauseShare, Evidence, Fact, Part, Saving
from stepscope.derive.predictions.step_times import Model, Prediction
from stepscope.thresholds import Threshold
from stepscope.unavailable import Unavailable

Status = Literal["fail", "pass", "cannot_tell", "not_applicable"]
#: A note is a failing check with severity "info". A pass is unconfirmed if its rule has
#: failed on synthetic profiles only: it may be unable to fail on real recordings.
ShownStatus = Literal[Status, "note", "unconfirmed"]
Severity = Literal["info", "warn", "critical"]
#: How lost time is distributed over the steps, see `Pattern`.
PatternKind = Literal["every", "bursts", "once"]
#: Where the time of a finding is: inside steps, between steps, or anywhere ("any").
Place = Literal["inside", "between", "any"]

#: Recorder of a profile: "nsight" is Nsight Systems, "framework" is any other recorder
#: (a framework or stepscope), "any" is all recorders.
Recorder = Literal["any", "nsight", "framework"]

#: Severities, the gravest first.
SEVERITIES: Final[tuple[Severity, ...]] = ("critical", "warn", "info")
#: Statuses in the order in which findings are shown.
STATUSES: Final[tuple[Status, ...]] = ("fail", "cannot_tell", "pass", "not_applicable")


class Pattern(msgspec.Struct, frozen=True, kw_only=True):
    """How the lost time is distributed over the judged steps.

    A step is hit if its lost time is at least half of the mean over all steps.

    Attributes:
        kind: "every" if most steps are hit, "once" if one of several is, else "bursts".
        steps_hit: Number of steps that are hit.
        steps: Number of judged steps.
        shortest_ms: Smallest lost time of a hit step; null if no step is hit.
        longest_ms: Largest lost time of a step.
        mean_ms: 95 % interval of the mean lost time; null unless the finding fails.
    """

    kind: PatternKind
    steps_hit: int
    steps: int
    shortest_ms: float | None
    longest_ms: float
    mean_ms: tuple[float, float] | None = None


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """One change to make.

    Attributes:
        cause: Identifier of the cause that the change removes, or "any".
        framework: Framework that the change is for, or "any".
        text: What to do.
        env: Environment variables to set, as `NAME=value`.
        code: A line of code to copy; null if no code is needed.
        recorder: Recorder that the change is for: each has different options.
        id: Stable name of the change among those of its rule.
        models: Models that predict the step after the change; empty if none does, and
            `inquiry` alone if the action only finds something out.
    """

    cause: str
    framework: str
    text: str
    env: str | None = None
    code: str | None = None
    recorder: Recorder = "any"
    id: str = ""
    models: tuple[Model, ...] = ()


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict of one rule.

    Attributes:
        id: Stable name of the rule, `topic.matter`.
        title: The problem in a few words, true when the rule fails.
        stage: Number of the rule's stage in the optimization guides, 0 to 9.
        calibrated: Whether the rule has failed on a recorded program, not only on
            synthetic profiles.
        status: "fail", "pass", "cannot_tell" or "not_applicable".
        severity: How serious a fail is; a pass may have "info".
        confidence: Confidence in the verdict, 0 to 1: the minimum of the confidences of
            the steps, of the attribution and of the recording.
        value: The number compared with the threshold, in `unit`; null if not measured.
        unit: Unit of `value`.
        share_percent: The share of `owners` and `topics` in the judged steps' time on
            the first of `devices`, in percent.
        owners: What the lost time is attributed to, as in the breakdown of step time.
        topics: Kinds of host work, such as "garbage", that the finding is about; their
            time is part of the time of `owners`.
        place: Where the lost time is, relative to steps; null if `owners` is empty.
        pattern: How the lost time is distributed over the steps; null if there is none.
        ms_per_step: Mean lost time per step, over all steps; null without steps.
        threshold: The number that `value` was compared with.
        steps_hit: Number of judged steps that lose at least half of the mean lost time.
        steps_clean: Number of judged steps.
        devices: Affected devices as `host:device`, most affected first.
        causes: The lost time by cause, largest first.
        parts: The lost time by name (op, function, …), largest first.
        workers: Functions that worker processes run during the lost time, largest
            first; shares are of the sampled time of the processes, not of a step.
        because: Identifiers of why time is lost, such as "small_work".
        facts: Other numbers to show.
        evidence: At most three time ranges that show the lost time, largest first.
        inputs: Names of the derivations and results from which the verdict is computed.
        unavailable: Why there is no verdict; null if there is a verdict.
        note: Identifier of a qualification of the verdict: "noisy", "once",
            "each_epoch" (in the first step of each epoch), "borderline", "few_steps",
            or one that the rule defines, such as "hidden";
            "short" for a pass whose value is beyond the threshold but whose time per
            step is too small; null without a qualification.
        confirm: How to confirm the verdict.
        refute: What would prove the verdict wrong.
        saving_ms: Milliseconds per step that the change would save; null if unknown.
        predictions: What the step becomes after each action for which a model exists,
            in the order of `actions`; of several numbers of an action, the advised one
            comes first.
        floors: What limits the saving: known bounds, and unmeasured ones.
        actions: What to change.
        explained_by: Ids of the findings that explain this finding's time, alone or
            together, largest first; empty without such findings.
        after_stage: Stage to settle before this finding; null if no stage comes first.
    """

    id: str
    title: str
    stage: int
    calibrated: bool = True
    status: Status
    severity: Severity = "info"
    confidence: float = 1.0
    value: float | None = None
    unit: str = "percent"
    share_percent: float | None = None
    owners: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    place: Place | None = None
    pattern: Pattern | None = None
    ms_per_step: float | None = None
    threshold: Threshold | None = None
    steps_hit: int | None = None
    steps_clean: int | None = None
    devices: tuple[str, ...] = ()
    causes: tuple[CauseShare, ...] = ()
    parts: tuple[Part, ...] = ()
    workers: tuple[Part, ...] = ()
    because: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    inputs: tuple[str, ...] = ()
    unavailable: Unavailable | None = None
    note: str | None = None
    confirm: str | None = None
    refute: str | None = None
    saving_ms: Saving | None = None
    predictions: tuple[Prediction, ...] = ()
    floors: tuple[str, ...] = ()
    actions: tuple[Action, ...] = ()
    explained_by: tuple[str, ...] = ()
    after_stage: int | None = None

    @property
    def mean_step_ms(self) -> float | None:
        """Return the mean recorded step, of which the lost time is a share."""
        if not self.ms_per_step or not self.share_percent:
            return None
        return 100 * self.ms_per_step / self.share_percent

    def _repr_html_(self) -> str:
        """Return the verdict and what to change, for a notebook."""
        lost = f", {self.ms_per_step:.3g} ms a step" if self.ms_per_step else ""
        actions = "".join(
            f"<li>{escape(action.text)}"
            + (f"<pre>{escape(action.code)}</pre></li>" if action.code else "</li>")
            for action in self.actions
        )
        verdict = escape(f"{self.title} ({self.id}): {self.shown_status}{lost}")
        return f"<p><b>{verdict}</b></p><ul>{actions}</ul>"

    @property
    def shown_status(self) -> ShownStatus:
        """Return the status as people see it."""
        if self.status == "fail" and self.severity == "info":
            return "note"
        is_unconfirmed = self.status == "pass" and not self.calibrated
        return "unconfirmed" if is_unconfirmed else self.status
