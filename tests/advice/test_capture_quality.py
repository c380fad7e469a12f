"""`capture.quality` over literal signals: fires, stays silent, near miss."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces import blueprint
from tests.support.traces.training import BF16, MATMUL, Recorder, findings

from stepscope.advice import engine
from stepscope.advice.rules.recording_quality.capture_quality import evaluate
from stepscope.derive.facts.recording import capture_signals
from stepscope.derive.verdicts.recorded_devices import DeviceSignals
from stepscope.reporting.words.findings import finding_headline
from stepscope.unavailable import Unavailable

MS, US = 1_000_000_000, 1_000_000


@pytest.mark.parametrize(
    ("owner", "ms", "severity"),
    [
        ("queued", 6.3, "critical"),
        ("queued", 0.6, "warn"),
        ("unexplained", 2.1, "critical"),
    ],
)
def test_time_that_the_record_hides_is_its_flaw(
    signals_of: Any, shares: Any, owner: str, ms: float, severity: str
) -> None:
    finding = evaluate(signals_of(shares(**{owner: ms})))
    assert (finding.status, finding.severity, finding.note) == ("fail", severity, owner)
    assert finding.owners == (owner,)
    assert finding.share_percent == pytest.approx(10 * ms)
    assert finding.saving_ms is None


@pytest.mark.parametrize(
    ("owner", "ms"), [("queued", 0.4), ("unexplained", 1.9), ("profiler", 4.0)]
)
def test_a_little_hidden_time_is_none(
    signals_of: Any, shares: Any, owner: str, ms: float
) -> None:
    assert evaluate(signals_of(shares(**{owner: ms}))).status == "pass"


@pytest.mark.parametrize(
    ("longest_us", "status"), [(6, "pass"), (49, "pass"), (51, "fail")]
)
def test_pauses_between_queued_kernels_are_no_missing_work(
    signals_of: Any, shares: Any, longest_us: int, status: str
) -> None:
    ranges = {("queued", "inside"): [(0, 5 * US), (MS, MS + longest_us * US)]}
    account = shares(queued=0.8, fields={"ranges": ranges})
    assert evaluate(signals_of(account)).status == status


@pytest.mark.parametrize(
    ("from_ms", "steps", "cause"),
    [
        # Of 120 ms: what was launched before the recording may have run until then.
        (1, None, "queued_before"),
        (60, None, "queued"),
        (1, "marker", "queued"),
    ],
)
def test_a_recording_that_begins_with_a_busy_device_is_begun_later(
    signals_of: Any, shares: Any, from_ms: int, steps: str | None, cause: str
) -> None:
    fields = {
        "ranges": {("queued", "inside"): [(from_ms * MS, (from_ms + 50) * MS)]},
        "bounds": ((0, 120 * MS),),
        "step_source": steps,
    }
    account = shares(queued=4.0, fields=fields)
    finding = evaluate(signals_of(account))
    assert finding.note == "queued"
    # What depends on the recorder is left out where it is shown.
    told = [one.cause for one in finding.actions if one.recorder == "any"]
    assert told == [cause]


@pytest.mark.parametrize(
    ("from_ms", "note_and_cause"),
    [(1, ("queued", "launched_before")), (60, ("waiting", "waiting"))],
)
def test_without_replayed_graphs_no_graph_is_missing(
    signals_of: Any,
    shares: Any,
    capture_of: Any,
    from_ms: int,
    note_and_cause: tuple[str, str],
) -> None:
    """Two ranks of a small model took turns with another program on their devices."""
    fields = {
        "ranges": {("queued", "inside"): [(from_ms * MS, (from_ms + 50) * MS)]},
        "bounds": ((0, 120 * MS),),
        "step_source": None,
    }
    account = shares(queued=4.0, fields=fields)
    signals = signals_of(account, capture=capture_of(replays=False))
    finding = evaluate(signals)
    (action,) = finding.actions
    assert (finding.note, action.cause) == note_and_cause
    assert finding.owners == ("queued",)
    assert "nodes of replayed graphs" not in action.text


@pytest.mark.parametrize(
    ("error_us", "gaps", "severity"),
    [
        # 12 steps of 10 ms: 120 stretches that may be 50 µs off are 5 % of them.
        (50, 120, "warn"),
        (200, 120, "critical"),
        # Without a late launch there may be one in each step.
        (2_000, 0, "critical"),
    ],
)
def test_clocks_that_differ_are_a_flaw(
    signals_of: Any, shares: Any, error_us: int, gaps: int, severity: str
) -> None:
    clocks = {"clock_error_ps": error_us * US, "gaps": gaps}
    finding = evaluate(signals_of(shares(fields=clocks)))
    assert (finding.status, finding.note) == ("fail", "clocks")
    assert finding.severity == severity
    assert finding.owners == ()
    assert finding.actions
    (fact,) = (one for one in finding.facts if one.name == "clock_error")
    assert fact.value == error_us


def test_clocks_that_differ_by_little_are_none(signals_of: Any, shares: Any) -> None:
    clocks = {"clock_error_ps": 40 * US, "gaps": 120}
    assert evaluate(signals_of(shares(fields=clocks))).status == "pass"


@pytest.mark.parametrize(
    ("fields", "flaw"),
    [
        ({"devices": 8, "computing": 1, "copying": 1}, ("devices", "critical")),
        ({"dropped": 7}, ("dropped", "warn")),
        ({"without_launch_percent": 6.0}, ("no_launch", "info")),
        ({"ranks": 16}, ("ranks", "info")),
    ],
)
def test_counts_of_the_record_show_flaws(
    signals_of: Any,
    shares: Any,
    capture_of: Any,
    fields: dict[str, Any],
    flaw: tuple[str, str],
) -> None:
    signals = signals_of(shares(), capture=capture_of(**fields))
    finding = evaluate(signals)
    assert (finding.status, finding.note, finding.severity) == ("fail", *flaw)
    assert finding.actions


@pytest.mark.parametrize(
    "fields",
    [
        # One device of eight works: the others belong to other programs.
        {"devices": 8, "computing": 1},
        {"devices": 8, "computing": 6, "copying": 2},
        {"without_launch_percent": 4.0},
        {"ranks": 2, "hosts": 2},
    ],
)
def test_near_misses_of_counts_pass(
    signals_of: Any, shares: Any, capture_of: Any, fields: dict[str, Any]
) -> None:
    signals = signals_of(shares(), capture=capture_of(**fields))
    assert evaluate(signals).status == "pass"


@pytest.mark.parametrize(("lost_ms", "severity"), [(8, "critical"), (3, "warn")])
def test_lost_records_weigh_by_the_time_that_they_stand_for(
    signals_of: Any, shares: Any, lost_ms: int, severity: str
) -> None:
    one = shares(fields={"lost_ps": lost_ms * MS})
    finding = evaluate(signals_of(one))
    assert (finding.severity, finding.note) == (severity, "lost")


def test_a_device_whose_work_was_not_recorded_is_the_gravest_flaw(
    signals_of: Any, shares: Any
) -> None:
    silent = DeviceSignals(recorded="silent")
    finding = evaluate(signals_of(shares(device=None), device=silent))
    assert (finding.status, finding.severity, finding.note) == (
        "fail",
        "critical",
        "silent",
    )


def test_work_that_is_not_understood_was_recorded(signals_of: Any, shares: Any) -> None:
    """Recording it once more would not help."""
    why = Unavailable(code="UNKNOWN_DEVICE", reason="MTIA.", remedy="Report it.")
    unread = DeviceSignals(recorded="silent", reason=why)
    finding = evaluate(signals_of(shares(device=None), device=unread))
    assert (finding.severity, finding.note) == ("critical", "unread")
    assert not [one for one in finding.actions if one.cause == "silent"]


def test_the_gravest_flaw_stands_first_and_the_others_beside_it(
    signals_of: Any, shares: Any
) -> None:
    finding = evaluate(signals_of(shares(unexplained=5.0, queued=1.0)))
    assert finding.note == "unexplained"
    assert [one.cause for one in finding.causes] == ["unexplained", "queued"]


def test_queued_work_is_no_flaw_inside_the_doubt_of_clocks(
    signals_of: Any, shares: Any
) -> None:
    fields = {"clock_error_ps": 100 * MS}
    finding = evaluate(signals_of(shares(queued=5.0, fields=fields)))
    assert finding.note == "clocks"
    assert finding.causes == ()
    assert all("graph" not in one.text for one in finding.actions)


def test_a_damaged_file_is_not_asked_to_be_recorded_with_more_tracers(
    signals_of: Any, shares: Any, capture_of: Any
) -> None:
    signals = signals_of(shares(unexplained=5.0), capture=capture_of(damaged=True))
    finding = evaluate(signals)
    assert (finding.severity, finding.note) == ("critical", "damaged")
    assert [one.cause for one in finding.actions] == ["damaged"]
    whole = evaluate(signals_of(shares(), capture=capture_of(damaged=True)))
    assert whole.status == "pass"


def test_a_tracer_that_was_in_force_is_not_asked_for(
    signals_of: Any, shares: Any, capture_of: Any
) -> None:
    def advised(*, functions: bool) -> str:
        capture = capture_of(functions=functions)
        signals = signals_of(shares(unexplained=5.0), capture=capture)
        return evaluate(signals).actions[0].text

    assert advised(functions=False).startswith("Also record the program's")
    assert advised(functions=True).startswith("Annotate")


def test_a_recording_too_short_for_samples_says_how_many_there_were(
    signals_of: Any, shares: Any, capture_of: Any
) -> None:
    """It said that functions were recorded and do not say, after 70 ms."""
    capture = capture_of(functions=True, few_looks=7)
    finding = evaluate(signals_of(shares(unexplained=5.0), capture=capture))
    assert [it.cause for it in finding.actions] == ["short"]
    assert finding.actions[0].text.startswith("Record for at least a second")
    assert "the program's functions were sampled 7 times." in finding_headline(finding)


@pytest.mark.parametrize(("looks", "few"), [(7, 7), (19, 19), (20, None)])
def test_looks_are_counted_in_the_samples(looks: int, few: int | None) -> None:
    """At 100 a second, each stands for 10 ms."""
    lines = [
        ("main", "train", 0, 5_000.0),
        ("samples of main, 100 a second", "$/app/t.py:4 work", 0, 10_000.0 * looks),
    ]
    profile = blueprint.profile(blueprint.trace(lines))
    found = engine.signals_of(profile).of(capture_signals)
    assert found.few_looks == few


def test_without_an_account_it_cannot_tell(signals_of: Any, shares: Any) -> None:
    assert evaluate(signals_of()).status == "cannot_tell"
    blind = shares(missing=["launch"])
    assert evaluate(signals_of(blind)).status == "cannot_tell"


def test_what_an_unknown_owner_would_have_is_shown_as_unexplained() -> None:
    """Without launches the host's work is not known: 8 ms in which `load` runs.

    The story: of 1 s that nobody explained three stretches of 0.1 ms were shown.
    """
    made = Recorder()
    for number in range(10):
        begin = 10_000.0 * number
        made.mark(number, begin, 9_990.0)
        made.lines.append(("main", "$/app/train.py:3 load", begin, 8_000.0))
        made.launch((BF16, 900.0, MATMUL), begin + 9_000.0, begin + 9_020.0)
    found = findings(made.lines, without="launches")["capture.quality"]
    assert (found.status, found.owners) == ("fail", ("unexplained",))
    longest = found.evidence[0]
    assert longest.end_ps - longest.start_ps >= 8_000_000_000
