"""Gains of findings by a replay, alone and together: every field, by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from stepscope.advice.engine import mark_stage_order
from stepscope.advice.finding import Finding, Pattern
from stepscope.advice.predicted_gains import (
    Together,
    predict_gain,
    replay_together,
    saving_limits,
    why_not_replayed,
)
from stepscope.derive.facts.evidence import Limits, Saving
from stepscope.derive.facts.savings.predicted_savings import replay_signals
from stepscope.derive.facts.savings.what_if_changes import Gone
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals

WHY = Unavailable(code="NO_STEPS", reason="No steps.", remedy="Mark them.")
PATTERN = Pattern(kind="every", steps_hit=12, steps=12, shortest_ms=2.0, longest_ms=2.0)
REPLAYED = Saving(low=1.0, high=1.5, basis="replay", identity_error_percent=0.5)


def finding(name: str = "one", **fields: Any) -> Finding:
    """A finding about 2 ms of `sync` of each step, whose gain is bounded by these."""
    return Finding(
        **{
            "id": name,
            "title": "",
            "stage": 3,
            "status": "fail",
            "severity": "warn",
            "share_percent": 20.0,
            "owners": ("sync",),
            "place": "any",
            "devices": ("vm:0",),
            "pattern": PATTERN,
            "ms_per_step": 2.0,
            "saving_ms": Saving(low=1.0, high=2.0),
            **fields,
        }
    )


class Replays:
    """Answers every question of a replay, and notes what was asked."""

    def __init__(self, saving: Saving | None = REPLAYED, **answers: Any) -> None:
        self.saving = saving
        self.answers = answers
        self.asked: list[Any] = []

    def saving_of_changes(self, *asked: Any, **more: Any) -> Saving | None:
        self.asked.append((asked, more))
        return self.saving

    def reason(self, label: str) -> Unavailable | None:
        self.asked.append(label)
        why: Unavailable | None = self.answers.get("reason")
        return why

    def host_of_label(self, label: str) -> str:
        return label.rpartition(":")[0] or label

    def next_bottleneck(self, *asked: Any) -> Any:
        self.asked.append(asked)
        return self.answers.get("after")

    def together(self, *asked: Any) -> Any:
        self.asked.append(asked)
        return self.answers.get("joint")


def seen_by(signals_of: Any, replays: Replays, *accounts: Any) -> Signals:
    signals: Signals = signals_of(*accounts, {replay_signals: replays})
    return signals


# --- limits ---


@pytest.mark.parametrize(
    ("fields", "floor_ms"),
    [
        # 6 of 10 ms compute, of which a finding about waits removes nothing.
        ({}, 6.0),
        ({"owners": ("compute_16",)}, 1.0),
        ({"owners": ("compute_16", "collective")}, 0.0),
        # Who names no owners may be about any of it, but a topic is a wait's.
        ({"owners": ()}, 0.0),
        ({"owners": (), "topics": ("garbage",)}, 6.0),
    ],
)
def test_work_that_a_finding_is_not_about_stays(
    signals_of: Any, shares: Any, fields: dict[str, Any], floor_ms: float
) -> None:
    account = shares(sync=2.0, launch=2.0, collective=1.0)
    signals = signals_of(shares(device=1), account, shares(device=2, steps=1))
    assert saving_limits(finding(**fields), signals) == Limits(2.0, 10.0, floor_ms)


def test_without_an_account_of_the_device_only_the_lost_time_limits(
    signals_of: Any, shares: Any
) -> None:
    alone = Limits(2.0, None)
    assert saving_limits(finding(devices=("vm:7",)), signals_of(shares())) == alone
    assert saving_limits(finding(devices=()), signals_of(shares())) == alone
    assert saving_limits(finding(), signals_of()) == alone
    assert saving_limits(finding(), signals_of(shares(steps=0))) == alone


def test_a_saving_is_at_most_what_the_work_leaves(signals_of: Any, shares: Any) -> None:
    signals = seen_by(signals_of, Replays(None), shares(sync=1.5))
    limited = predict_gain(finding(), signals)
    assert limited == finding(saving_ms=Saving(high=1.5))
    none = finding(saving_ms=None)
    assert predict_gain(none, signals) == none


# --- gains of one finding ---


def test_a_gain_is_that_of_a_replay_without_the_cause(
    signals_of: Any, shares: Any
) -> None:
    replays = Replays()
    signals = seen_by(signals_of, replays, shares(sync=2.0))
    bound = finding().saving_ms
    assert bound is not None
    found = predict_gain(finding(), signals)
    assert found == finding(saving_ms=REPLAYED)
    ((asked, more),) = replays.asked
    (gone,), label = asked
    assert isinstance(gone, Gone)
    assert (gone.owners, gone.place, label) == (("sync",), "any", "vm:0")
    assert more == {"limits": Limits(2.0, 10.0, 8.0), "bound": bound}
    # No replay knows the speed of kernels that replace others.
    opened = finding(saving_ms=replace(bound, open_above=True))
    found = predict_gain(opened, signals).saving_ms
    assert found == replace(REPLAYED, open_above=True)


@pytest.mark.parametrize(
    "fields",
    [
        {"saving_ms": None},
        {"status": "pass"},
        {"devices": ()},
        {"place": None},
        {"owners": ()},
        {"topics": ("garbage",)},
        {"pattern": None},
        {"owners": ("compute_16",)},
        {"owners": ("sync", "compute_16")},
        {"ms_per_step": None},
        # A bound that is not that of all of the time is of another change.
        {"saving_ms": Saving(low=1.0, high=1.9)},
        # The wait may be the end of the recording.
        {"note": "at_end"},
    ],
)
def test_what_no_replay_can_remove_keeps_its_bound(
    signals_of: Any, shares: Any, fields: dict[str, Any]
) -> None:
    replays = Replays()
    signals = seen_by(signals_of, replays, shares(sync=2.0))
    given = finding(**fields)
    bound = given.saving_ms
    if bound is not None and given.status == "fail":
        # Without a replay nothing is known of the least gain.
        bound = replace(bound, low=0.0)
    assert predict_gain(given, signals) == replace(given, saving_ms=bound)
    assert replays.asked == []


def test_copies_of_input_are_removed_like_waits(signals_of: Any, shares: Any) -> None:
    signals = seen_by(signals_of, Replays(), shares(copy_in=2.0))
    copies = finding(owners=("copy_in",))
    assert predict_gain(copies, signals).saving_ms == REPLAYED
    unknown = seen_by(signals_of, Replays(None), shares(copy_in=2.0))
    bound = predict_gain(copies, unknown).saving_ms
    assert bound == Saving(high=2.0)


def test_why_a_gain_is_only_a_bound(signals_of: Any) -> None:
    silent = seen_by(signals_of, Replays(reason=WHY))
    assert why_not_replayed(finding(saving_ms=None), silent) is None
    assert why_not_replayed(finding(saving_ms=REPLAYED), silent) is None
    assert why_not_replayed(finding(), silent) == WHY
    signals = seen_by(signals_of, Replays())
    unknown = why_not_replayed(finding(), signals)
    never = why_not_replayed(finding(owners=("compute_16",)), signals)
    assert unknown is not None
    assert never is not None
    assert unknown != never
    assert why_not_replayed(finding(owners=()), signals) == never
    assert why_not_replayed(finding(devices=()), silent) == never
    # A rule that declares its change would have it replayed.
    declared = finding("kernel.fill", owners=())
    assert why_not_replayed(declared, signals) == unknown


# --- gains of several findings ---


def replayed(name: str, high: float, **fields: Any) -> Finding:
    return finding(name, saving_ms=replace(REPLAYED, high=high), **fields)


def test_every_field_of_findings_together(signals_of: Any, shares: Any) -> None:
    joint = Saving(low=1.0, high=3.0, basis="replay")
    replays = Replays(after=("launch", 60.0), joint=joint)
    signals = seen_by(signals_of, replays, shares(sync=2.0, launch=4.0))
    first = replayed("first", 2.0)
    second = replayed("second", 1.5, owners=("launch",), place="inside")
    elsewhere = replayed("elsewhere", 1.7, devices=("b:0",))
    fourth = replayed("fourth", 1.4)
    found = [fourth, second, elsewhere, first]
    assert replay_together(found, signals) == Together(
        findings=("first", "second"),
        left_out=("elsewhere",),
        saving_ms=joint,
        next_owner="launch",
        next_percent=60.0,
        next_hidden=False,
    )
    asked_next, asked_joint = replays.asked
    assert asked_next[1] == "vm:0"
    (rows, limits) = asked_joint
    assert [(label, saving.high) for _, label, saving in rows] == [
        ("vm:0", 2.0),
        ("vm:0", 1.5),
    ]
    assert [change.owners for changes, _, _ in rows for change in changes] == [
        ("sync",),
        ("launch",),
    ]
    assert limits == Limits(None, 10.0)
    # What is shown first is replayed first, and the others by their gains.
    shown = replay_together(found, signals, first="fourth")
    assert shown.findings == ("fourth", "first")
    assert shown.left_out == ("elsewhere",)


def test_a_single_finding_has_no_gain_together(signals_of: Any, shares: Any) -> None:
    replays = Replays(joint=REPLAYED)
    signals = seen_by(signals_of, replays, shares(sync=2.0))
    bound = finding("bound")
    nothing = replayed("nothing", 0.0009)
    one = replayed("one", 0.001)
    assert replay_together([one, bound, nothing], signals) == Together(
        findings=("one",), left_out=("bound", "nothing")
    )
    assert replay_together([bound, nothing], signals) == Together(
        left_out=("bound", "nothing")
    )
    work = replayed("work", 5.0, owners=("compute_16",))
    unknown = replay_together([work], signals)
    assert unknown == Together(left_out=("work",))
    assert replay_together([], signals) == Together()


@pytest.mark.parametrize(
    ("after", "launch_ms", "hidden"),
    [
        # Of the 8 ms that stay half is on the path: 40 %, and half of that is 20.
        (("launch", 50.0), 1.9, True),
        (("launch", 50.0), 2.0, False),
        (("sync", 50.0), 2.0, True),
    ],
)
def test_what_comes_next_may_be_hidden_before(
    signals_of: Any, shares: Any, after: Any, launch_ms: float, *, hidden: bool
) -> None:
    account = shares(sync=2.0, launch=launch_ms)
    signals = seen_by(signals_of, Replays(after=after), shares(device=1), account)
    found = replay_together([replayed("one", 2.0)], signals)
    assert (found.next_owner, found.next_percent) == after
    assert found.next_hidden is hidden
    if after[0] == "launch":
        for accounts in ((), (shares(device=1),)):
            other = seen_by(signals_of, Replays(after=after), *accounts)
            found = replay_together([replayed("one", 2.0)], other)
            assert found.next_hidden is False


@pytest.mark.parametrize(
    ("after", "owner"),
    [
        (("sync", 99.0), None),
        (("sync", 98.9), "sync"),
        (("launch", 99.0), "launch"),
        (None, None),
    ],
)
def test_all_of_the_path_is_no_next_cause_after_the_same_one(
    signals_of: Any, shares: Any, after: Any, owner: str | None
) -> None:
    signals = seen_by(signals_of, Replays(after=after), shares(sync=2.0))
    found = replay_together([replayed("one", 2.0)], signals)
    assert found.next_owner == owner
    assert (found.next_percent is None) is (owner is None)
    assert owner is not None or not found.next_hidden


# --- order ---


def staged(stage: int, gain: float | None, **fields: Any) -> Finding:
    saving = None if gain is None else Saving(low=0.0, high=gain)
    return finding(f"stage.{stage}", stage=stage, saving_ms=saving, **fields)


@pytest.mark.parametrize(
    ("earlier", "later", "waits_for"),
    [
        (staged(1, 10.0), staged(3, 8.0), 1),
        (staged(1, 10.0), staged(3, 8.1), None),
        (staged(3, 10.0), staged(3, 1.0), None),
        (staged(1, 10.0, severity="info"), staged(3, 1.0), None),
        (staged(1, 10.0, status="pass"), staged(3, 1.0), None),
        (staged(1, 10.0, explained_by=("x",)), staged(3, 1.0), None),
        (staged(1, 10.0), staged(3, 1.0, status="pass"), None),
        (staged(1, 10.0), staged(3, 1.0, severity="info"), 1),
        # Without a gain nothing waits for a gain, but everything for a flaw.
        (staged(1, 10.0), staged(3, None), None),
        (staged(1, 10.0), staged(3, 0.0), None),
        (staged(1, None), staged(3, 1.0), None),
        (staged(0, None, severity="critical"), staged(3, None), 0),
        (staged(0, None, severity="warn"), staged(3, 1.0), None),
        (staged(1, None, severity="critical"), staged(3, 1.0), None),
    ],
)
def test_a_finding_waits_for_a_larger_gain_of_an_earlier_stage(
    earlier: Finding, later: Finding, waits_for: int | None
) -> None:
    first, last = mark_stage_order([later, earlier])
    assert sorted([first.stage, last.stage]) == [first.stage, last.stage]
    marked = last if earlier.stage < later.stage else first
    assert marked.after_stage == waits_for
    assert {first.after_stage, last.after_stage} <= {None, waits_for}
