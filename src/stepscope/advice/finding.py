"""`Finding`: what one rule says about one profile, in numbers.

The record is the same for a page, the command line, a gate and a program that reads
JSON. Numbers become sentences in `report/`.

Definition: docs/definitions/judging.md#the-record-of-a-finding.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from stepscope.thresholds import Threshold
from stepscope.unavailable import Unavailable

__all__ = [
    "STATUSES",
    "Action",
    "CauseShare",
    "Evidence",
    "Fact",
    "Finding",
    "Saving",
    "Severity",
    "Status",
]

Status = Literal["fail", "pass", "cannot_tell", "not_applicable"]
Severity = Literal["info", "warn", "critical"]

#: In the order in which a person wants to read them.
STATUSES: Final[tuple[Status, ...]] = ("fail", "cannot_tell", "pass", "not_applicable")


class CauseShare(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the effect, named; shares are of the step."""

    cause: str
    share_percent: float


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A range of the timeline in which the effect can be seen.

    Attributes:
        host: Whose timeline.
        device: The device that waited; null for a host thread alone.
        track: Name of the thread or stream to look at, where it is known.
        start_ps: Since the start of the host's profile.
        end_ps: Likewise.
        ops: Names of what ran there.
        frame: Python frame, where one was recorded.
    """

    host: str
    device: int | None
    track: str | None
    start_ps: int
    end_ps: int
    ops: tuple[str, ...] = ()
    frame: str | None = None


class Saving(msgspec.Struct, frozen=True, kw_only=True):
    """What a change would save per step."""

    low: float
    high: float


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """One change to make.

    Attributes:
        cause: The cause it removes, or "any".
        framework: Who it is for, or "any".
        text: What to do.
        env: Environment variables to set, as `NAME=value`.
        code: A line to copy.
    """

    cause: str
    framework: str
    text: str
    env: str | None = None
    code: str | None = None


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """A measured number that explains the verdict.

    Attributes:
        name: Stable name.
        value: Null where it could not be measured.
        unit: "us", "count", "percent" or "ratio".
        note: What the number rests on.
    """

    name: str
    value: float | None
    unit: str
    note: str | None = None


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict of one rule.

    Attributes:
        id: Stable name of the rule, `topic.matter`.
        title: The matter in a few words, true when the rule fails.
        stage: Place in the guides' order, 0 to 9.
        status: What the rule found.
        severity: How much a fail matters; a pass may carry "info".
        confidence: 0 to 1: the least certain of steps, attribution and record.
        value: What is held against the threshold: the effect of a typical step, in
            `unit`; null where it could not be measured.
        unit: Unit of `value`.
        share_percent: The effect's share of all step time, rare steps included.
        ms_per_step: The effect in time, mean of all steps; null without steps.
        threshold: What the value was held against.
        steps_hit: Clean steps that show at least half the threshold.
        steps_clean: Steps that were judged.
        devices: `host:device`, most affected first.
        causes: The effect by cause, largest first.
        because: The rule's stable words for why the effect arises, such as
            "small_work".
        facts: Other numbers worth showing.
        evidence: At most three ranges, largest first.
        inputs: What the verdict was read from.
        unavailable: Why the rule cannot tell.
        note: Stable word for what qualifies the verdict: "noisy", "borderline",
            "few_steps", or one of the rule's own, such as "hidden"; of a pass whose
            value is beyond the threshold "short" (too little time a step to be a
            finding) or "seldom" (too few steps show it).
        confirm: How to confirm the verdict.
        refute: What would prove it wrong.
        saving_ms: What the change would save per step.
        floors: Limits that the saving was held against, or that were unknown.
        actions: What to change.
        explained_by: The finding that owns this one's time.
        after_stage: The stage to settle first, if another comes before.
    """

    id: str
    title: str
    stage: int
    status: Status
    severity: Severity = "info"
    confidence: float = 1.0
    value: float | None = None
    unit: str = "percent"
    share_percent: float | None = None
    ms_per_step: float | None = None
    threshold: Threshold | None = None
    steps_hit: int | None = None
    steps_clean: int | None = None
    devices: tuple[str, ...] = ()
    causes: tuple[CauseShare, ...] = ()
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
    explained_by: str | None = None
    after_stage: int | None = None
