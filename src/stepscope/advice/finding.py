"""`Finding`: what one rule says about one profile, in numbers.

The page, the command line, a gate and programs that read JSON all get this record.
`report/` turns its numbers into sentences.

Definition: docs/definitions/judging.md#the-record-of-a-finding.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from stepscope.derive.facts.evidence import CauseShare, Evidence, Fact, Part, Saving
from stepscope.thresholds import Threshold
from stepscope.unavailable import Unavailable

Status = Literal["fail", "pass", "cannot_tell", "not_applicable"]
Severity = Literal["info", "warn", "critical"]
#: How an effect is spread over the steps.
PatternKind = Literal["every", "bursts", "once"]
#: Where the time of a finding lies; "any" is both.
Place = Literal["inside", "between", "any"]

#: Whose recordings: all; those of Nsight Systems; those of all others, which frameworks
#: or stepscope made.
Recorder = Literal["any", "nsight", "framework"]

#: Statuses in the order in which a person wants to read them.
STATUSES: Final[tuple[Status, ...]] = ("fail", "cannot_tell", "pass", "not_applicable")


class Pattern(msgspec.Struct, frozen=True, kw_only=True):
    """How an effect is spread over the judged steps.

    A step is hit if its effect is at least half of the mean effect of a step.

    Attributes:
        kind: "every" where most steps are hit; "once" where a single one of several
            is; else "bursts".
        steps_hit: Number of steps that are hit.
        steps: Number of judged steps.
        shortest_ms: Smallest effect of the steps that are hit; null where none is.
        longest_ms: Largest effect of a step.
        mean_ms: From and to what the mean effect may be if it comes as often as here:
            its 95 % interval; null where nothing fails.
    """

    kind: PatternKind
    steps_hit: int
    steps: int
    shortest_ms: float | None
    longest_ms: float
    mean_ms: tuple[float, float] | None = None

    def promise(self, effect_ms: float) -> Saving:
        """Return what a step gains if the effect goes: half of it at least.

        Removing a wait may bring out another one, and the mean of the steps to come may
        be lower than that of these.
        """
        low, _ = self.mean_ms or (effect_ms, effect_ms)
        return Saving(low=min(effect_ms / 2, low), high=effect_ms)


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """One change to make.

    Attributes:
        cause: Stable word of the cause that the change removes, or "any".
        framework: Framework that the change is for, or "any".
        text: What to do.
        env: Environment variables to set, as `NAME=value`.
        code: A line of code to copy; null where none is needed.
        recorder: Whose recordings it is for: how to record otherwise depends on what
            recorded.
    """

    cause: str
    framework: str
    text: str
    env: str | None = None
    code: str | None = None
    recorder: Recorder = "any"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict of one rule.

    Attributes:
        id: Stable name of the rule, `topic.matter`.
        title: The problem in a few words, true when the rule fails.
        stage: Place of the rule in the order of the optimization guides, 0 to 9.
        calibrated: Whether the rule has failed on a recorded program yet, not only on
            made-up ones.
        status: What the rule found.
        severity: How much a fail matters; a pass may carry "info".
        confidence: How certain the verdict is, 0 to 1: the smallest of the
            confidences of the steps, of the attribution and of the record.
        value: The number that is compared with the threshold, in `unit`; null where it
            could not be measured.
        unit: Unit of `value`.
        share_percent: The share of `owners` and `topics` in the judged steps' time on
            the first of `devices`, in percent, as the account gives it.
        owners: Owners of the account whose time the finding is about.
        topics: Topics, such as "garbage", whose time the finding is about: parts of
            owners' time.
        place: Where that time lies; null where the finding is not about owners.
        pattern: How the effect is spread over the steps; null without an effect.
        ms_per_step: The effect in milliseconds, mean of all steps; null without steps.
        threshold: The number that `value` was compared with.
        steps_hit: Number of judged steps whose effect is at least half of the mean
            one.
        steps_clean: Number of steps that were judged.
        devices: Affected devices as `host:device`, most affected first.
        causes: The effect by cause, largest first.
        parts: The largest named parts of the effect, largest first.
        workers: Functions that worker processes of the program are in meanwhile, the
            one with most of it first; shares are of the time for which these were
            looked at, and none of a step's.
        because: The rule's stable words for why the effect arises, such as
            "small_work".
        facts: Other numbers worth showing.
        evidence: At most three ranges of the timeline that show the effect, largest
            first.
        inputs: Names of the derivations and results that the verdict was computed from.
        unavailable: Why there is no verdict; null where there is one.
        note: Stable word for what qualifies the verdict: "noisy", "once",
            "borderline", "few_steps", or one of the rule's own, such as "hidden"; for
            a pass whose value is beyond the threshold "short" (too little time per
            step to be a finding); null where nothing qualifies it.
        confirm: How to confirm the verdict.
        refute: What would prove the verdict wrong.
        saving_ms: Milliseconds per step that the change would save; null where they
            cannot be estimated.
        floors: Limits of the saving that were taken into account, and those that were
            not measured.
        actions: What to change.
        explained_by: Ids of the findings that account for this one's time, alone or
            together, the one with most of it first; empty where none do.
        after_stage: Stage to settle before this finding; null where none comes first.
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
    floors: tuple[str, ...] = ()
    actions: tuple[Action, ...] = ()
    explained_by: tuple[str, ...] = ()
    after_stage: int | None = None
