"""Every field of the topic that a headline has, for literal findings and accounts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from stepscope.advice.finding import Finding, Pattern
from stepscope.advice.headline import (
    Lead,
    are_slow_steps,
    choose_lead_sentence,
    costliest_finding,
    findings_by_cost,
)
from stepscope.derive.facts.evidence import Fact, Part, Saving
from stepscope.derive.facts.slow_steps import HELD_BY_SLOW
from stepscope.derive.facts.step_shares import NamedTime
from stepscope.derive.frameworks import PLAIN, frameworks_used

if TYPE_CHECKING:
    from collections.abc import Sequence

MS = 1_000_000_000


def failing(name: str = "launch.delay", **fields: Any) -> Finding:
    return Finding(
        **{
            "id": name,
            "title": "",
            "stage": 3,
            "status": "fail",
            "severity": "warn",
            "devices": ("vm:0",),
            **fields,
        }
    )


def gain(high: float) -> Saving:
    return Saving(low=0.0, high=high)


def lead_of(signals: Any, *findings: Finding) -> Lead:
    return choose_lead_sentence(findings, signals)


def kind_of(signals: Any, *findings: Finding) -> tuple[str, str | None]:
    lead = lead_of(signals, *findings)
    return lead.kind, lead.finding or lead.owner


def ids(findings: Sequence[Finding]) -> list[str]:
    return [finding.id for finding in findings]


@pytest.mark.parametrize(
    ("devices", "host", "device"),
    [
        (("a:b:3", "vm:0"), "a:b", 3),
        (("vm",), "vm", None),
        (("localhost:x",), "localhost:x", None),
        ((), None, None),
    ],
)
def test_without_an_account_a_finding_says_its_own_numbers(
    signals_of: Any, devices: tuple[str, ...], host: str | None, device: int | None
) -> None:
    finding = failing(
        share_percent=7.0,
        owners=("sync", "launch"),
        place="between",
        devices=devices,
        parts=(Part(name="step", share_percent=7.0),),
    )
    assert lead_of(signals_of(), finding) == Lead(
        kind="finding",
        owner="sync",
        place="between",
        percent=7.0,
        finding="launch.delay",
        host=host,
        device=device,
        parts=finding.parts,
    )


def test_without_an_account_and_findings_the_reason_is_the_accounts(
    signals_of: Any,
) -> None:
    lead = lead_of(signals_of())
    assert lead.unavailable is not None
    assert lead == Lead(kind="nothing", unavailable=lead.unavailable)
    assert lead.unavailable.code == "NOT_RECORDED"


@pytest.mark.parametrize(
    ("place", "owner"), [("inside", "sync"), ("between", "launch"), ("any", "launch")]
)
def test_a_finding_about_two_causes_is_headed_by_the_longer_in_its_place(
    signals_of: Any, shares: Any, place: Any, owner: str
) -> None:
    """Of device 1, in 10 ms: in the step 2 of sync, and outside 1 and 4 of launch."""
    accounts = (
        shares(launch=4.0, collective=1.0),
        shares(device=1, launch=1.0, sync=2.0, between={"launch": 4.0}, working_ms=9.0),
        shares(host="other", device=0),
    )
    finding = failing(
        share_percent=40.0,
        owners=("input", "sync", "launch"),
        devices=("vm:1", "vm:0"),
        place=place,
    )
    assert lead_of(signals_of(*accounts), finding) == Lead(
        kind="finding",
        owner=owner,
        place=place,
        percent=40.0,
        finding="launch.delay",
        host="vm",
        device=1,
        hosts=2,
        devices=2,
    )


def test_a_recording_without_steps_is_no_share_of_steps(
    signals_of: Any, shares: Any
) -> None:
    whole = shares(
        step_ms=100.0,
        steps=1,
        input=30.0,
        names=[
            NamedTime("input", "inside", "next", time_ps=20 * MS),
            NamedTime("input", "inside", "read", time_ps=10 * MS),
            NamedTime("launch", "inside", "other", time_ps=90 * MS),
        ],
        fields={
            "step_source": None,
            "step_confidence": 0.0,
            "callers": (
                NamedTime(
                    "input",
                    "inside",
                    "load",
                    function="load",
                    file="a.py",
                    line=3,
                    time_ps=15 * MS,
                ),
            ),
        },
    )
    lead = lead_of(signals_of(whole))
    assert lead == Lead(
        kind="idle",
        owner="input",
        place="any",
        percent=30.0,
        host="vm",
        device=0,
        parts=(
            Part(name="next", share_percent=20.0),
            Part(name="read", share_percent=10.0),
        ),
        caller=Part(
            name="load", function="load", file="a.py", line=3, share_percent=15.0
        ),
        has_steps=False,
    )


@pytest.mark.parametrize(
    ("times", "lead"),
    [
        # 80 % of work, half of which computes, are a step that its device bounds.
        (
            {"launch": 2.0, "collective": 4.0},
            {"kind": "device", "owner": "busy", "percent": 80.0},
        ),
        (
            {"launch": 1.0, "sync": 1.1, "collective": 1.0},
            {"kind": "largest", "owner": "compute_16", "percent": 69.0},
        ),
        (
            {"launch": 1.0, "collective": 4.6},
            {"kind": "largest", "owner": "collective", "percent": 46.0},
        ),
    ],
)
def test_a_step_without_findings_is_bound_by_its_device_or_has_a_largest_cause(
    signals_of: Any, shares: Any, times: dict[str, float], lead: dict[str, Any]
) -> None:
    # 20 % of waits for one cause would be a headline of their own, by the threshold.
    known = failing("known", severity="info", share_percent=0.5, owners=("launch",))
    said = lead_of(signals_of(shares(**times)), known)
    expected = Lead(place="any", host="vm", device=0, **lead)
    assert replace(said, percent=round(said.percent or 0.0, 6)) == expected


def test_the_step_of_a_host_is_its_work_or_its_longest_wait(
    signals_of: Any, shares: Any
) -> None:
    work = lead_of(signals_of(shares(device=None, input=1.0)))
    assert work == Lead(
        kind="host", owner="host_compute", place="any", percent=90.0, host="vm"
    )
    known = failing(owners=("input", "sync"), severity="info", share_percent=0.5)
    wait = lead_of(signals_of(shares(device=None, rest="input", sync=4.0)), known)
    assert wait == Lead(
        kind="largest", owner="input", place="any", percent=60.0, host="vm"
    )


def test_an_account_without_time_says_nothing(signals_of: Any, shares: Any) -> None:
    lead = lead_of(signals_of(shares(steps=0)))
    assert (lead.kind, lead.owner, lead.percent) == ("nothing", None, None)
    assert lead.unavailable is not None


@pytest.mark.parametrize(("wait_ms", "kind"), [(2.0, "idle"), (1.9, "device")])
def test_waits_of_a_fifth_without_a_finding_are_said_first(
    signals_of: Any, shares: Any, wait_ms: float, kind: str
) -> None:
    passing = failing(status="pass", owners=("sync",), share_percent=90.0)
    assert lead_of(signals_of(shares(sync=wait_ms)), passing).kind == kind


def test_waits_that_findings_about_topics_hold_are_explained(
    signals_of: Any, shares: Any
) -> None:
    """Of 50 % of host work 31 % collect garbage: the other 19 % are no fifth."""
    account = shares(
        host_compute=5.0,
        fields={
            "held": {
                ("garbage", "host_compute", "inside"): 12 * 2 * MS,
                ("garbage", "host_compute", "between"): 12 * 11 * MS // 10,
                ("garbage", "launch", "inside"): 12 * 9 * MS,
                ("callbacks", "host_compute", "inside"): 12 * 5 * MS,
            }
        },
    )
    garbage = failing("gap.gc", topics=("garbage",), share_percent=31.0, devices=())
    assert kind_of(signals_of(account), garbage) == ("finding", "gap.gc")
    assert kind_of(signals_of(account)) == ("idle", "host_compute")


@pytest.mark.parametrize(
    ("name", "share", "kind"),
    [
        ("multi.stagger", 14.9, "idle"),
        ("multi.stagger", 15.1, "finding"),
        ("launch.delay", 15.1, "idle"),
    ],
)
def test_a_third_of_a_wait_for_workers_explains_all_of_it(
    signals_of: Any, shares: Any, name: str, share: float, kind: str
) -> None:
    finding = failing(name, share_percent=share)
    assert lead_of(signals_of(shares(peer=4.5)), finding).kind == kind


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        # The idle time is 3 of 10 ms: 30 %.
        ({"saving_ms": gain(2.9)}, "idle"),
        ({"saving_ms": gain(3.0)}, "finding"),
        ({"stage": 0, "severity": "critical", "share_percent": 29.0}, "idle"),
        ({"stage": 0, "severity": "critical", "share_percent": 30.0}, "finding"),
        ({"stage": 0, "severity": "critical", "share_percent": None}, "finding"),
        ({"stage": 0, "severity": "warn", "share_percent": 90.0}, "idle"),
    ],
)
def test_unexplained_waits_yield_to_what_gains_or_hides_as_much(
    signals_of: Any, shares: Any, fields: dict[str, Any], kind: str
) -> None:
    finding = failing(**{"share_percent": 5.0, "owners": ("launch",), **fields})
    assert lead_of(signals_of(shares(sync=3.0, launch=0.5)), finding).kind == kind


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        # Computing takes 80 %, and a gain below a tenth of 10 ms does not change that.
        ({"saving_ms": gain(0.99)}, "device"),
        ({"saving_ms": gain(1.0)}, "finding"),
        # Without a gain all of a wait may go, but of work only a third.
        ({"owners": ("sync",), "share_percent": 9.9}, "device"),
        ({"owners": ("sync",), "share_percent": 10.0}, "finding"),
        ({"owners": (), "share_percent": 29.9}, "device"),
        ({"owners": (), "share_percent": 30.1}, "finding"),
        # Nobody knows what work with owners gains, nor work without a share.
        ({"owners": ("compute_16",), "share_percent": 2.0}, "finding"),
        ({"owners": (), "share_percent": None}, "finding"),
        # Doubts about a recording that hide no time are minor unless critical.
        ({"stage": 0, "share_percent": None}, "device"),
        ({"stage": 0, "share_percent": None, "severity": "critical"}, "finding"),
    ],
)
def test_what_gains_little_of_a_step_that_computes_is_minor(
    signals_of: Any, shares: Any, fields: dict[str, Any], kind: str
) -> None:
    finding = failing(**{"owners": ("sync",), "share_percent": 5.0, **fields})
    account = shares(sync=1.0, launch=1.0)
    assert lead_of(signals_of(account), finding).kind == kind
    # With less than 80 % of computing, every finding comes first.
    account = shares(sync=1.0, launch=1.1)
    minor = fields.get("stage") == 0 and fields.get("severity") != "critical"
    said = lead_of(signals_of(account), finding).kind
    assert said == ("largest" if minor else "finding")


@pytest.mark.parametrize(("share", "kind"), [(9.0, "host"), (11.0, "finding")])
def test_in_a_plain_program_the_larger_of_share_and_gain_counts(
    signals_of: Any, shares: Any, share: float, kind: str
) -> None:
    account = shares(device=None, input=2.0)
    plain = {frameworks_used: PLAIN}
    finding = failing(share_percent=share, owners=("input",), saving_ms=gain(0.1))
    assert lead_of(signals_of(account, plain), finding).kind == kind
    finding = failing(share_percent=2.0, owners=("input",), saving_ms=gain(share / 10))
    assert lead_of(signals_of(account, plain), finding).kind == kind


def test_the_largest_note_about_idle_time_is_said_before_what_the_step_is(
    signals_of: Any, shares: Any
) -> None:
    """Host work takes 45 % of the time, and notes are about 30, 25 and 20 of it."""
    note = failing(
        "warm.up",
        stage=0,
        severity="info",
        owners=("compile",),
        share_percent=50.0,
        devices=("vm",),
    )
    smaller = replace(note, id="smaller", share_percent=46.0)
    signals = signals_of(shares(device=None, compile=5.5))
    assert kind_of(signals, smaller, note) == ("finding", "warm.up")
    for changed in (
        {"explained_by": ("other",)},
        {"status": "pass"},
        {"share_percent": 44.9},
        {"owners": ("compile", "compute_16")},
        {"share_percent": None},
    ):
        other = replace(note, **changed)
        if changed.get("status") == "pass":
            # Then nothing explains the waits for the compiler.
            assert kind_of(signals, other) == ("idle", "compile")
        else:
            assert kind_of(signals, other) == ("host", "host_compute")
    # A wait of the program's step thread is idle time only with an owner.
    assert kind_of(signals, replace(note, owners=()), smaller) == ("finding", "smaller")


@pytest.mark.parametrize(("share", "first"), [(19.9, "host"), (20.0, "finding")])
def test_a_note_about_less_than_a_fifth_is_never_said_first(
    signals_of: Any, shares: Any, share: float, first: str
) -> None:
    """Work is all of the account's 15 %; a note about more of it has to be large."""
    times = dict.fromkeys(("compile", "switch", "queued", "sync", "launch"), 1.7)
    note = failing(
        severity="info", owners=(*times,), share_percent=share, devices=("vm",)
    )
    signals = signals_of(shares(device=None, **times))
    assert lead_of(signals, note).kind == first


@pytest.mark.parametrize(
    ("held", "note", "slow"),
    [
        (50.0, None, True),
        (49.9, None, False),
        (50.0, "once", False),
        (None, None, False),
    ],
)
def test_slow_steps_are_those_with_half_of_the_time(
    held: float | None, note: str | None, *, slow: bool
) -> None:
    facts = (
        Fact(name=HELD_BY_SLOW, value=held, unit="percent"),
        Fact(name="other", value=99.0, unit="percent"),
    )
    finding = failing("step.outlier", severity="info", facts=facts, note=note)
    finding = replace(finding, share_percent=30.0, ms_per_step=4.0)
    assert are_slow_steps(finding) is slow
    assert ids(findings_by_cost([finding])) == (["step.outlier"] if slow else [])
    # Without a saving their cost is the time that they lose.
    cheaper, dearer = (failing(str(ms), saving_ms=gain(ms)) for ms in (3.9, 4.1))
    if slow:
        ranked = ids(findings_by_cost([cheaper, finding, dearer]))
        assert ranked == ["4.1", "step.outlier", "3.9"]


def test_slow_steps_with_most_of_the_time_are_said_before_waits_in_them(
    signals_of: Any, shares: Any
) -> None:
    facts = (Fact(name=HELD_BY_SLOW, value=60.0, unit="percent"),)
    slow = failing(
        "step.outlier", severity="info", share_percent=9.0, ms_per_step=0.9, facts=facts
    )
    assert kind_of(signals_of(shares(sync=3.0)), slow) == ("finding", "step.outlier")
    # Their share of a step that computes is what they gain at most.
    busy = signals_of(shares(sync=0.5))
    assert kind_of(busy, slow)[0] == "device"
    assert kind_of(busy, replace(slow, share_percent=10.0))[0] == "finding"


def test_findings_are_ordered_by_graveness_then_gain_then_cost() -> None:
    wait = failing("wait", owners=("sync",), share_percent=2.0)
    work = failing("work", owners=("compute_16",), share_percent=5.9)
    more_work = failing("more.work", owners=("compute_16",), share_percent=6.1)
    unsure = failing("unsure", owners=(), share_percent=6.05)
    gains = failing("gains", saving_ms=gain(0.1), share_percent=0.1)
    flaw = failing("flaw", stage=0, severity="critical", share_percent=2.0)
    hidden = failing("hidden", explained_by=("wait",), share_percent=90.0)
    found = [unsure, work, wait, more_work, hidden, gains, flaw]
    # Work counts for a third: 5.9 / 3 < 2 < 6.05 / 3 < 6.1 / 3.
    order = ["flaw", "gains", "more.work", "unsure", "wait", "work"]
    assert ids(findings_by_cost(found)) == order
    # A flaw that hides less than the largest explained wait is an ordinary finding.
    small = replace(flaw, share_percent=1.9, owners=("unexplained",))
    assert ids(findings_by_cost([wait, small])) == ["wait", "flaw"]
    working = replace(wait, owners=("compute_16",))
    assert ids(findings_by_cost([working, small])) == ["flaw", "wait"]


@pytest.mark.parametrize(
    ("share", "first"), [(2.0, "early"), (2.9, "early"), (3.1, "late")]
)
def test_costs_below_a_hundredth_are_equal(share: float, first: str) -> None:
    """A third of less than 3 % is below 1 %: then the order of the rules decides."""
    early = failing("early", owners=("compute_16",), share_percent=1.5)
    late = failing("late", owners=("compute_16",), share_percent=share)
    assert ids(findings_by_cost([early, late]))[0] == first


def test_what_waits_for_another_stage_is_not_the_first(signals_of: Any) -> None:
    first = failing("first", saving_ms=gain(1.0))
    later = failing("later", saving_ms=gain(9.0), after_stage=3)
    assert costliest_finding([first, later]) is first
    assert costliest_finding([later]) is None
    assert lead_of(signals_of(), later).kind == "nothing"


@pytest.mark.parametrize(
    ("fields", "outweighs"),
    [
        ({}, True),
        ({"after_stage": 2}, False),
        ({"owners": ("compute_16",)}, False),
        ({"owners": ("sync", "compute_16")}, False),
        ({"owners": ()}, False),
        ({"share_percent": 20.0}, False),
        ({"share_percent": None}, False),
    ],
)
def test_a_wait_longer_than_what_flaws_hide_need_not_wait_for_them(
    fields: dict[str, Any], *, outweighs: bool
) -> None:
    flaw = failing("flaw", stage=0, severity="critical", share_percent=20.0)
    wait = replace(
        failing("wait", owners=("sync",), share_percent=20.1, after_stage=0), **fields
    )
    first = costliest_finding([flaw, wait])
    assert first is not None
    assert first.id == ("wait" if outweighs else "flaw")
    # A flaw that may hide anything outweighs every wait.
    for other in (None, 20.2):
        larger = replace(flaw, share_percent=other)
        first = costliest_finding([flaw, larger, wait])
        assert first is not None
        assert first.id == "flaw"


@pytest.mark.parametrize(("other", "first"), [(8.0, "exact"), (7.9, "large")])
def test_of_gains_within_a_fifth_the_one_of_the_largest_part_is_first(
    other: float, first: str
) -> None:
    large = failing("large", saving_ms=gain(10.0), ms_per_step=40.0)
    exact = failing("exact", saving_ms=gain(other), ms_per_step=10.0)
    # Of a finding without lost time no part is known.
    unknown = failing("unknown", saving_ms=gain(9.9))
    found = costliest_finding([large, unknown, exact])
    assert found is not None
    assert found.id == first


@pytest.mark.parametrize(
    ("share", "gains", "kept"),
    [(1.0, False, True), (0.9, False, False), (0.9, True, True), (None, False, True)],
)
def test_findings_about_less_than_a_hundredth_need_a_gain(
    share: float | None, *, gains: bool, kept: bool
) -> None:
    finding = failing(share_percent=share, saving_ms=gain(0.0) if gains else None)
    assert findings_by_cost([finding]) == ([finding] if kept else [])
    assert findings_by_cost([replace(finding, status="cannot_tell")]) == []
    assert findings_by_cost([replace(finding, severity="info")]) == []


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        ({"note": "noisy"}, True),
        ({"note": "noisy", "share_percent": 19.9}, False),
        ({"note": "noisy", "share_percent": None}, False),
        ({"note": "once", "pattern": 2}, True),
        ({"note": "once", "pattern": 3}, False),
        ({"note": "once", "pattern": None}, False),
        ({"note": "few_steps", "pattern": 2}, False),
    ],
)
def test_notes_about_a_fifth_in_some_steps_are_kept(
    fields: dict[str, Any], *, kept: bool
) -> None:
    steps = fields.get("pattern")
    pattern = None
    if steps is not None:
        pattern = Pattern(
            kind="once", steps_hit=1, steps=steps, shortest_ms=1.0, longest_ms=1.0
        )
    given = {"severity": "info", "share_percent": 20.0, **fields, "pattern": pattern}
    assert bool(findings_by_cost([failing(**given)])) is kept
