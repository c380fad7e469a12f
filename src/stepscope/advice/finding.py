"""`Finding`: what one rule says about one profile, in numbers.

The page, the command line, a gate and programs that read JSON all get this record.
`report/` turns its numbers into sentences.

Definition: docs/definitions/judging.md#the-record-of-a-finding.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from stepscope.frozen import Frozen
from stepscope.thresholds import Threshold
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.host.function_names import FunctionName

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


class CauseShare(msgspec.Struct, frozen=True, kw_only=True):
    """A named part of the effect, with its share of the step in percent."""

    cause: str
    share_percent: float


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A range of the timeline in which the effect can be seen.

    Attributes:
        host: Host on whose timeline the range is.
        device: Ordinal of the device that waited; null for a range of host threads.
        track: Name of the thread or stream to look at; null where it is not known.
        start_ps: Start of the range in ps since the start of the host's profile.
        end_ps: End of the range in ps since the start of the host's profile.
        ops: Names of the ops, kernels or host events in the range.
        frame: Python frame that ran in the range; null where none was recorded.
    """

    host: str
    device: int | None
    track: str | None
    start_ps: int
    end_ps: int
    ops: tuple[str, ...] = ()
    frame: str | None = None


class Saving(msgspec.Struct, frozen=True, kw_only=True):
    """The time that a change would save per step, from `low` to `high`.

    Of a finding neither is more than its `Limits` allow.

    Attributes:
        low: Milliseconds per step at least.
        high: Milliseconds per step at most.
        basis: "replay" where the step was run again on its dependencies without the
            cause; "bound" where the numbers are limits that follow from the account.
        identity_error_percent: How far a replay that changes nothing misses the
            measured step; null where there was no replay.
        open_above: Whether more may be gained than `high`: with the change kernels of
            another algorithm run, and how fast these are cannot be foretold.
    """

    low: float
    high: float
    basis: Literal["replay", "bound"] = "bound"
    identity_error_percent: float | None = None
    open_above: bool = False

    def within(self, limits: Limits) -> Saving:
        """Return it with both ends from 0 to the most that the limits allow."""
        high = min(max(self.high, 0.0), limits.most_ms)
        low = min(max(self.low, 0.0), high)
        return msgspec.structs.replace(self, low=low, high=high)


class Limits(Frozen, frozen=True, eq=True):
    """What limits the saving of a change, in milliseconds per step.

    Attributes:
        effect_ms: Mean time that the change is about; None where it is not known.
        step_ms: Mean step; None where it is not known.
        floor_ms: What a step takes at least after the change.
    """

    effect_ms: float | None
    step_ms: float | None
    floor_ms: float = 0.0

    @property
    def most_ms(self) -> float:
        """Return the most that can be saved: the effect, and no more than the step."""
        known = [] if self.effect_ms is None else [self.effect_ms]
        if self.step_ms is not None:
            known.append(self.step_ms - self.floor_ms)
        return max(min(known, default=math.inf), 0.0)


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the time of a finding, by name.

    Attributes:
        name: What ran, or between which two events the time lies.
        detail: What most of it is, beside the name; null for nothing.
        function: The function, where the name is one.
        file: Its file; null where it was not recorded.
        line: Its line; null where it was not recorded.
        lines: First and last of its own lines that the part is; null for all of it.
        loop: Whether the function runs around steps: it is none of their work.
        thread: Name of the other thread of the program that is in the function while
            the steps wait; null for what the steps themselves do.
        share_percent: Its share of all judged steps' time.
        inclusive: Whether that counts what the function calls, and this is more than
            its own.
    """

    name: str
    detail: str | None = None
    function: str | None = None
    file: str | None = None
    line: int | None = None
    lines: tuple[int, int] | None = None
    loop: bool = False
    thread: str | None = None
    share_percent: float
    inclusive: bool = False

    @classmethod
    def of_function(cls, name: FunctionName, share_percent: float) -> Part:
        """Return the part that a function has."""
        return cls(
            name=name.function,
            function=name.function,
            file=name.file,
            line=name.line,
            share_percent=share_percent,
        )

    @property
    def key(self) -> tuple[str | None, str | None, int | None]:
        """What tells a function from others: its name, its file and its first line."""
        return self.function, self.file, self.line


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

        Args:
            effect_ms: The mean effect.
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


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """A measured number that explains the verdict.

    Attributes:
        name: Stable name of the number.
        value: The number in `unit`; null where it could not be measured.
        unit: "us", "count", "percent" or "ratio".
        note: What the number was computed from; null where there is nothing to add.
    """

    name: str
    value: float | None
    unit: str
    note: str | None = None


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
