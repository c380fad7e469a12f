"""What is said first of literal accounts, and what is said to hold a step then."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from stepscope.advice.finding import Finding, Pattern
from stepscope.advice.headline import (
    choose_lead_sentence,
    costliest_finding,
    findings_by_cost,
)
from stepscope.advice.predicted_gains import replay_together
from stepscope.derive.facts.evidence import CauseShare, Saving
from stepscope.derive.facts.savings.predicted_savings import replay_signals
from stepscope.derive.facts.step_shares import NamedTime
from stepscope.derive.frameworks import PLAIN, frameworks_used
from stepscope.reporting.words.checks import most_valuable_findings
from stepscope.reporting.words.first_sentence import first_sentence

MS = 1_000_000_000


def failing(name: str, share: float, **fields: Any) -> Finding:
    return Finding(
        **{
            "id": name,
            "title": "",
            "stage": 8,
            "status": "fail",
            "severity": "warn",
            "share_percent": share,
            **fields,
        }
    )


@pytest.mark.parametrize(
    ("peer", "share", "kind"),
    [
        (9.0, 20.1, "finding"),
        (9.0, 19.9, "idle"),
        # Of 45 % a third is the late worker's, and the rest is the exchange.
        (4.5, 15.1, "finding"),
        (4.5, 14.9, "idle"),
    ],
)
def test_waiting_for_a_worker_that_a_finding_names_is_explained(
    signals_of: Any, shares: Any, peer: float, share: float, kind: str
) -> None:
    """The finding compares workers; the wait stands in the account of one of them."""
    signals = signals_of(shares(device=None, peer=peer))
    found = (failing("allreduce.arrival", share),)
    assert choose_lead_sentence(found, signals).kind == kind


@pytest.mark.parametrize(("ms", "kind"), [(5.1, "finding"), (4.9, "host")])
def test_a_note_about_most_of_the_time_is_said_before_what_the_step_is(
    signals_of: Any, shares: Any, ms: float, kind: str
) -> None:
    """Half of a real recording compiled, and the work on the host was said first."""
    note = failing("capture.window", 10 * ms, owners=("compile",), place="any")
    found = (replace(note, severity="info", stage=0, devices=("vm",)),)
    signals = signals_of(shares(device=None, compile=ms))
    assert choose_lead_sentence(found, signals).kind == kind


@pytest.mark.parametrize(("share", "kind"), [(9.9, "host"), (10.1, "finding")])
def test_what_holds_little_of_a_program_without_a_framework_is_not_said_first(
    signals_of: Any, shares: Any, share: float, kind: str
) -> None:
    work = NamedTime(
        "host_compute",
        "inside",
        "parse",
        function="parse",
        file="rows.py",
        line=5,
        time_ps=90 * MS,
    )
    one = shares(
        device=None, names=[work], fields={"step_source": None, "step_confidence": 0.0}
    )
    found = (failing("gap.gc", share, owners=("host_compute",), devices=("vm",)),)
    said = choose_lead_sentence(found, signals_of(one, {frameworks_used: PLAIN}))
    assert said.kind == kind
    if kind == "host":
        assert first_sentence(said, found) == (
            "100.0 % of the recording is time in functions of the program, mostly "
            "`parse` (rows.py:5)."
        )
    # The work of a framework's ops is nothing to change: any finding comes before it.
    said = choose_lead_sentence(found, signals_of(one, {frameworks_used: ("PyTorch",)}))
    assert said.kind == "finding"


@pytest.mark.parametrize(("percent", "owner"), [(98.0, "input"), (100.0, None)])
def test_what_nothing_else_is_beside_is_not_hidden(
    signals_of: Any, shares: Any, percent: float, owner: str | None
) -> None:
    replays = SimpleNamespace(
        host_of_label=lambda _: "vm", next_bottleneck=lambda *_: ("input", percent)
    )
    saving = Saving(low=1.0, high=2.0, basis="replay")
    found = failing(
        "input.bound",
        20.0,
        owners=("input",),
        devices=("vm",),
        place="any",
        pattern=Pattern(
            kind="every", steps_hit=9, steps=9, shortest_ms=1.0, longest_ms=2.0
        ),
        saving_ms=saving,
    )
    signals = signals_of(shares(device=None, input=2.0), {replay_signals: replays})
    assert replay_together((found,), signals).next_owner == owner


@pytest.mark.parametrize(("share", "first"), [(44.0, 0), (42.0, 1)])
def test_the_recordings_own_time_explains_more_than_what_nobody_does(
    share: float, first: int
) -> None:
    """Start and stop of a profiler took half of a recording of a server that waited."""
    own = failing("recording.cost", share, owners=("profiler",), place="any")
    unknown = failing("capture.quality", 43.0, owners=("unexplained",), place="any")
    own, unknown = replace(own, stage=0), replace(unknown, stage=0, severity="critical")
    assert findings_by_cost([unknown, own])[0] == (own, unknown)[first]


@pytest.mark.parametrize(
    ("device", "ms", "kind"),
    # A model ran on the CPU for 75 % of the time, and the profiler stopped for 23 %.
    [(None, 2.3, "host"), (None, 5.1, "finding"), (0, 2.3, "largest")],
)
def test_the_recordings_own_time_leads_if_no_other_time_is_longer(
    signals_of: Any, shares: Any, device: int | None, ms: float, kind: str
) -> None:
    own = failing("recording.cost", 10 * ms, owners=("profiler",), place="any", stage=0)
    signals = signals_of(shares(device=device, profiler=ms))
    assert choose_lead_sentence((own,), signals).kind == kind


def test_evidence_that_is_next_to_nothing_beside_the_longest_is_left_out(
    shares: Any,
) -> None:
    ranges = {("input", "inside"): ((0, 500), (900, 905), (950, 954))}
    (first, second) = shares(fields={"ranges": ranges}, input=1.0).evidence("input")
    assert (first.start_ps, first.end_ps) == (0, 500)
    assert (second.start_ps, second.end_ps) == (900, 905)


@pytest.mark.parametrize(
    ("waits", "owner", "said"),
    [
        # More than the recording hides, less, and time that is no wait.
        (73.9, "launch", "launch.delay"),
        (19.9, "launch", "capture.quality"),
        (73.9, "compute_32", "capture.quality"),
        # What is moved while nothing is computed is no less a wait.
        (73.9, "collective", "comm.exposed"),
        (19.9, "collective", "capture.quality"),
    ],
)
def test_time_that_nobody_explains_comes_after_more_that_is_explained(
    signals_of: Any, shares: Any, waits: float, owner: str, said: str
) -> None:
    flaw = Finding(
        id="capture.quality",
        title="",
        stage=0,
        status="fail",
        severity="critical",
        share_percent=20.2,
        owners=("unexplained",),
        devices=("vm:0",),
    )
    late = Finding(
        id="comm.exposed" if owner == "collective" else "launch.delay",
        title="",
        stage=3,
        status="fail",
        severity="warn",
        share_percent=waits,
        owners=(owner,),
        devices=("vm:0",),
        after_stage=0,
    )
    signals = signals_of(shares(unexplained=2.02))
    assert choose_lead_sentence((flaw, late), signals).finding == said
    # A device without records leaves nothing to explain.
    silent = replace(flaw, share_percent=None, owners=())
    assert choose_lead_sentence((silent, late), signals).finding == "capture.quality"


@pytest.mark.parametrize(("waits_ms", "kind"), [(5.9, "idle"), (3.9, "finding")])
def test_more_idle_time_than_a_flaw_hides_is_said_first(
    signals_of: Any, shares: Any, waits_ms: float, kind: str
) -> None:
    """A program waited 58.8 % of its time for a loader; 40.3 % was unexplained."""
    flaw = failing("capture.quality", 40.3, owners=("unexplained",), devices=("vm:0",))
    found = (replace(flaw, stage=0, severity="critical"),)
    signals = signals_of(shares(unexplained=4.03, input=waits_ms))
    said = choose_lead_sentence(found, signals)
    assert said.kind == kind
    assert said.owner == ("input" if kind == "idle" else "unexplained")


def test_what_costs_no_time_to_speak_of_is_nothing_to_begin_with() -> None:
    """16-bit work was advised to a program for less than 0.1 % of its time."""
    little, more = failing("amp.share", 0.9), failing("launch.delay", 1.1)
    unknown = replace(little, id="capture.steps", share_percent=None)
    gains = replace(little, saving_ms=Saving(low=1.0, high=2.0, basis="replay"))
    assert findings_by_cost((little, more, unknown)) == [more, unknown]
    assert findings_by_cost((gains,)) == [gains]


@pytest.mark.parametrize(
    ("share", "note", "steps", "said"),
    [
        (37.4, "once", 2, "input.bound"),
        # One of three is an exception; one of two is not.
        (37.4, "once", 3, "amp.share"),
        (37.4, "noisy", 12, "input.bound"),
        (19.9, "once", 2, "amp.share"),
        (37.4, None, 2, "amp.share"),
    ],
)
def test_much_time_that_one_of_two_steps_loses_comes_before_a_little_in_each(
    signals_of: Any,
    shares: Any,
    *,
    share: float,
    note: str | None,
    steps: int,
    said: str,
) -> None:
    wait = Finding(
        id="input.bound",
        title="",
        stage=1,
        status="fail",
        severity="info",
        share_percent=share,
        owners=("input",),
        devices=("vm:0",),
        note=note,
        pattern=Pattern(
            kind="once", steps_hit=1, steps=steps, shortest_ms=16.6, longest_ms=16.6
        ),
        saving_ms=Saving(low=4.15, high=8.17, basis="replay"),
    )
    half = failing(
        "amp.share", 17.8, saving_ms=Saving(low=0.27, high=0.69, basis="replay")
    )
    # Without the exchanges the step would be bound by its device, whatever it gains.
    signals = signals_of(shares(step_ms=22.2, input=0.222 * share, collective=6.0))
    assert choose_lead_sentence((wait, half), signals).finding == said


def test_of_gains_that_are_about_the_same_the_order_is_that_of_the_checklist() -> None:
    """Each recording of a program measures other gains, and all advise the same."""
    for work, launches in ((10.0, 8.0), (9.0, 9.5), (8.0, 10.0)):
        found = (
            failing(
                "host.work",
                50.0,
                ms_per_step=work,
                saving_ms=Saving(low=1.0, high=work),
            ),
            failing(
                "launch.delay",
                50.0,
                ms_per_step=launches + 1.0,
                saving_ms=Saving(low=1.0, high=launches),
            ),
        )
        first = costliest_finding(found)
        assert first is not None
        assert first.id == "host.work"
        told = most_valuable_findings(found, first=first.id, frameworks=())
        assert [one.label for one in told] == ["Do first", "About as valuable"]
    clearly = replace(found[0], saving_ms=Saving(low=1.0, high=7.9))
    first = costliest_finding((clearly, found[1]))
    assert first is not None
    assert first.id == "launch.delay"
    told = most_valuable_findings((clearly, found[1]), first=first.id, frameworks=())
    assert [one.label for one in told] == ["Do first", "Then"]


@pytest.mark.parametrize(
    ("mean_ms", "gain", "launch_ms", "first", "label"),
    [
        # 5.5 ± 2.2 and 10 ± 4 ms differ by 4.5 ± 4.57 ms: either may be the longer one.
        ((3.3, 7.7), 5.5, 10.0, "host.work", "Perhaps as valuable"),
        # 4.5 ± 4.47 ms.
        ((3.5, 7.5), 5.5, 10.0, "launch.delay", "Then"),
        # Half of the lost time can be gained, 5.5 ± 2.2 or ± 2 ms: less exact.
        ((6.6, 15.4), 5.5, 10.0, "launch.delay", "Perhaps as valuable"),
        ((7.0, 15.0), 5.5, 10.0, "launch.delay", "Then"),
        # No chance makes three times as much of it.
        ((1.0, 6.5), 3.2, 10.0, "launch.delay", "Then"),
        # Nothing is known of how sure the mean is.
        (None, 5.5, 10.0, "launch.delay", "Then"),
    ],
)
def test_of_gains_whose_order_the_steps_do_not_show_the_order_is_the_checklists(
    mean_ms: Any, gain: float, launch_ms: float, first: str, label: str
) -> None:
    def lost(name: str, mean_ms: Any, lost_ms: float, saved_ms: float) -> Finding:
        hit: Any = {"kind": "every", "steps_hit": 12, "steps": 12}
        return failing(
            name,
            50.0,
            ms_per_step=lost_ms,
            saving_ms=Saving(low=0.0, high=saved_ms),
            pattern=Pattern(**hit, shortest_ms=1.0, longest_ms=20.0, mean_ms=mean_ms),
        )

    middle_ms = gain if mean_ms is None or mean_ms[1] < 10.0 else 2 * gain
    found = (
        lost("host.work", mean_ms, middle_ms, gain),
        lost("launch.delay", (6.0, 14.0), launch_ms, launch_ms),
    )
    one = costliest_finding(found)
    assert one is not None
    assert one.id == first
    told = most_valuable_findings(found, first=first, frameworks=())
    assert [each.label for each in told] == ["Do first", label]


@pytest.mark.parametrize(
    ("without_core_ms", "first"), [(4.5, "host.work"), (4.4, "launch.delay")]
)
def test_time_without_a_core_may_have_fallen_on_either_of_two_gains(
    without_core_ms: float, first: str
) -> None:
    """The gains differ by 4.5 ms."""
    cores = failing("cpu.threads", 20.0, ms_per_step=without_core_ms)
    found = (
        failing("host.work", 50.0, ms_per_step=5.5, saving_ms=Saving(high=5.5)),
        failing("launch.delay", 60.0, ms_per_step=10.0, saving_ms=Saving(high=10.0)),
        replace(cores, causes=(CauseShare(cause="no_core", share_percent=20.0),)),
    )
    one = costliest_finding(found)
    assert one is not None
    assert one.id == first


@pytest.mark.parametrize(
    ("gain", "first"), [(62.6, "multi.balance"), (62.7, "host.work")]
)
def test_of_gains_that_are_about_the_same_the_more_exact_finding_comes_first(
    gain: float, first: str
) -> None:
    """One of two ranks sorts: 41 ms more than the other, of 94 ms on its host."""
    found = (
        failing(
            "host.work",
            82.0,
            ms_per_step=94.1,
            saving_ms=Saving(low=25.5, high=gain, basis="bound"),
            owners=("host_compute",),
        ),
        failing(
            "multi.balance",
            35.2,
            ms_per_step=40.8,
            saving_ms=Saving(low=25.0, high=50.1, basis="bound"),
        ),
    )
    said = costliest_finding(found)
    assert said is not None
    assert said.id == first


def test_findings_without_a_share_keep_their_order_behind_those_with_one() -> None:
    """A third of the time of work counts; what is below 1 % then counts as nothing."""
    unknown = failing("launch.delay", 0.0, owners=("launch",))
    unknown = replace(unknown, share_percent=None)
    work, wait = (
        failing("amp.share", 2.9),
        failing("input.bound", 1.1, owners=("input",)),
    )
    more = failing("amp.scaling", 3.1)
    assert findings_by_cost([work, unknown]) == [work, unknown]
    assert findings_by_cost([unknown, work]) == [unknown, work]
    assert findings_by_cost([unknown, work, more, wait]) == [wait, more, unknown, work]
    # A grave flaw that hides less than others explain is no longer grave.
    flaw = failing("capture.quality", 0.5, saving_ms=Saving(low=0.0, high=0.0))
    flaw = replace(flaw, stage=0, severity="critical")
    assert findings_by_cost([unknown, flaw]) == [flaw, unknown]
    assert findings_by_cost([wait, flaw]) == [wait, flaw]
