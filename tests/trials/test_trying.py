"""The loop of `stepscope try` on made-up turns, worked out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from stepscope.advice.finding import Finding
from stepscope.compare.timing import RunTimes
from stepscope.derive.facts.evidence import Saving
from stepscope.derive.predictions.step_times import Parameter, Prediction, StepTime
from stepscope.trials.trying import Trials, compare_losses, compare_turns
from stepscope.trials.turns import Turn
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from stepscope.trials.knobs import Change

#: What each value of a knob adds to a step of 40 ms, in ms; others change nothing.
Gains = dict[tuple[str, object], float]


def times(mean_ms: float, spread_ms: float = 0.1) -> RunTimes:
    """Twenty steps around a mean, alternately above and below it."""
    steps = (mean_ms + (spread_ms if step % 2 else -spread_ms) for step in range(20))
    return RunTimes(window_ps=tuple(round(each * PS_PER_MS) for each in steps))


class Invented:
    """A program of which each turn takes ten seconds of an invented clock."""

    def __init__(self, gains: Gains) -> None:
        self.gains = gains
        self.turns: list[tuple[str, ...]] = []
        self.recorded: list[tuple[str, ...]] = []
        self.later: tuple[Finding, ...] = ()
        self.fails: dict[str, str] = {}
        self.same: set[object] = set()
        self.clock_s = 0.0

    def time_steps(self, changes: Sequence[Change], limit_s: float) -> Turn:
        del limit_s
        self.clock_s += 10
        self.turns.append(tuple(change.name for change in changes))
        failed = [self.fails[each.knob] for each in changes if each.knob in self.fails]
        gain = sum(
            self.gains.get((each.knob, each.settings[0].value), 0.0) for each in changes
        )
        return Turn(
            times=None if failed else times(40 - gain),
            status=1 if failed else None,
            out="".join(
                f"loss: {1 - 0.01 * step + 0.001 * len(changes):.3f}\n"
                for step in range(20)
            ),
            err="Traceback\nOSError: no more\n",
            seconds=10,
            applied=frozenset(
                each.knob for each in changes if each.settings[0].value not in self.same
            ),
            frameworks=frozenset({"torch"}),
        )

    def find_causes(self, changes: Sequence[Change]) -> tuple[Finding, ...]:
        self.recorded.append(tuple(change.name for change in changes))
        return self.later


def finding(rule: str, low: float | None = None, high: float = 0.0) -> Finding:
    saving = None if low is None else Saving(low=low, high=high)
    # The recorded step lasts 80 ms, twice as long as a timed one.
    return Finding(
        id=rule,
        title="t",
        stage=1,
        status="fail",
        saving_ms=saving,
        ms_per_step=high,
        share_percent=100 * high / 80,
    )


@pytest.fixture
def trials_of(tmp_path: Path) -> Callable[..., tuple[Trials, Invented]]:
    def made(
        gains: Gains, *, budget_s: float = 1e6, numerics: bool = False
    ) -> tuple[Trials, Invented]:
        program = Invented(gains)
        trials = Trials(
            program,
            environment={"OMP_NUM_THREADS": "1"},
            folder=str(tmp_path),
            budget_s=budget_s,
            numerics=numerics,
            now_s=lambda: program.clock_s,
        )
        return trials, program

    return made


def outcomes(trials: Trials) -> dict[str, str]:
    return {row.change: row.outcome for row in trials.rows}


@pytest.fixture(autouse=True)
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepscope.trials.knobs.core_count", lambda: 4)


def test_what_helps_is_kept_and_later_changes_are_added_to_it(
    trials_of: Callable[..., tuple[Trials, Invented]],
) -> None:
    """Two workers gain 16 ms, four gain 20: four replace two, as 4 ms more is clear."""
    gains: Gains = {
        ("torch.num_workers", 2): 16.0,
        ("torch.num_workers", 4): 20.0,
        ("torch.prefetch_factor", 4): 2.0,
        ("torch.persistent_workers", True): -3.0,
    }
    trials, program = trials_of(gains)
    program.later = (finding("input.bound"),)
    trials.try_findings([finding("input.bound", 10.0, 20.0)])
    assert outcomes(trials) == {
        "DataLoader(num_workers=2)": "replaced",
        "DataLoader(num_workers=4)": "kept",
        "DataLoader(persistent_workers=True)": "no_gain",
        "DataLoader(prefetch_factor=4)": "kept",
    }
    answer = trials.summarise_rows(("train.py",), interrupted=False)
    assert answer.ended == "left"
    assert answer.as_is_ms == pytest.approx(40)
    assert answer.together is not None
    assert answer.together.new_ms == pytest.approx(18)
    assert answer.write == (
        "DataLoader(num_workers=4)",
        "DataLoader(prefetch_factor=4)",
    )
    # As it is, changed, as it is, changed.
    two = "DataLoader(num_workers=2)"
    assert program.turns[:4] == [(), (two,), (), (two,)]
    # After each change that is kept, the program is recorded again.
    four = "DataLoader(num_workers=4)"
    both = (four, "DataLoader(prefetch_factor=4)")
    assert program.recorded == [(four,), both]


def test_only_the_first_kept_change_is_judged_by_the_promise(
    trials_of: Callable[..., tuple[Trials, Invented]],
) -> None:
    gains: Gains = {("torch.num_workers", 2): 16.0, ("torch.num_workers", 4): 24.0}
    trials, _ = trials_of(gains)
    trials.try_findings([finding("input.bound", 40.0, 60.0)])
    first, second, *_ = trials.rows
    assert first.promise is not None
    assert (first.promise.low_ms, first.promise.high_ms) == (20.0, 30.0)
    assert first.verdict == "below"
    assert (second.promise, second.verdict) == (None, None)


def test_a_prediction_of_the_same_number_is_the_promise(
    trials_of: Callable[..., tuple[Trials, Invented]],
) -> None:
    """Recorded steps of 80 ms should take 38 to 52: half of it is 19 to 26 of 40."""
    predictions = [
        Prediction(
            action="load_in_workers",
            parameter=Parameter(name="workers", value=workers),
            step_ms=StepTime(low=2 * (21 - workers), mid=44.0, high=2 * (28 - workers)),
            model="queue",
        )
        for workers in (1, 2)
    ]
    waits = msgspec.structs.replace(
        finding("input.bound", 40.0, 60.0), predictions=tuple(predictions)
    )
    trials, _ = trials_of({("torch.num_workers", 2): 16.0})
    trials.try_findings([waits])
    row = trials.rows[0]
    assert row.promise is not None
    assert row.promise.low_ms == pytest.approx(14)
    assert row.promise.high_ms == pytest.approx(21)
    assert row.verdict == "inside"


@pytest.mark.parametrize(
    ("recorded_ms", "promised"),
    [
        (48.0, (4.0, 15.0, 24.0)),
        (32.0, (15.0, 22.5, 32.0)),
        (80.0, (6.0, 9.0, 12.0)),
    ],
)
def test_whether_recording_lengthened_what_remains_is_unknown(
    trials_of: Callable[..., tuple[Trials, Invented]],
    recorded_ms: float,
    promised: tuple[float, float, float],
) -> None:
    """Of a recorded step 12 to 24 ms are saved; steps last 40 ms if not recorded.

    What remains is shorter as the step is, or as long, or shorter by all of that. A
    recorded step of 80 ms has two batches.
    """
    prediction = Prediction(
        action="load_in_workers",
        parameter=Parameter(name="workers", value=2),
        step_ms=StepTime(
            low=recorded_ms - 24, mid=recorded_ms - 18, high=recorded_ms - 12
        ),
        model="queue",
    )
    waits = msgspec.structs.replace(
        finding("input.bound", 12.0, 24.0),
        predictions=(prediction,),
        share_percent=100 * 24 / recorded_ms,
    )
    trials, _ = trials_of({("torch.num_workers", 2): 16.0})
    trials.try_findings([waits])
    promise = trials.rows[0].promise
    assert promise is not None
    told = (promise.low_ms, promise.mid_ms, promise.high_ms)
    assert told == pytest.approx(promised)


def test_a_change_that_does_nothing_costs_one_turn(
    trials_of: Callable[..., tuple[Trials, Invented]],
) -> None:
    trials, program = trials_of({})
    trials.try_findings([finding("gap.gc", 1.0, 2.0)])
    assert set(outcomes(trials).values()) == {"no_gain"}
    assert len(program.turns) == 1 + len(trials.rows)
    assert trials.rows[0].verdict == "below"


def test_a_certain_gain_of_one_percent_is_not_kept(
    trials_of: Callable[..., tuple[Trials, Invented]],
) -> None:
    trials, _ = trials_of({("any.gc_freeze", ""): 0.4})
    trials.try_findings([finding("gap.gc")])
    assert trials.rows[0].outcome == "no_gain"
    assert trials.rows[0].step_time is not None
    assert trials.rows[0].step_time.high_ms < 0


def test_a_change_that_fails_is_a_row(
    trials_of: Callable[..., tuple[Trials, Invented]],
) -> None:
    trials, program = trials_of({("any.gc_threshold", 100_000): 10.0})
    program.fails["any.gc_freeze"] = "x"
    trials.try_findings([finding("gap.gc")])
    assert outcomes(trials) == {
        "gc.freeze()": "failed",
        "gc.set_threshold(100000)": "kept",
    }
    assert trials.rows[0].reason == "The program ended with status 1: OSError: no more"
    assert trials.rows[0].step_time is None


def test_other_values_are_tried_where_the_program_has_the_first(
    trials_of: Callable[..., tuple[Trials, Invented]],
) -> None:
    trials, program = trials_of({("torch.threads", 1): 12.0})
    program.same = {4}
    trials.try_findings([finding("cpu.threads")])
    rows = outcomes(trials)
    assert rows["torch.set_num_threads(4)"] == "not_applied"
    assert rows["torch.set_num_threads(2)"] == "no_gain"
    assert rows["torch.set_num_threads(1)"] == "kept"
    # OMP_NUM_THREADS=1 is what the environment has.
    assert "OMP_NUM_THREADS=1" not in rows


def test_what_changes_results_needs_leave_and_shows_the_loss(
    trials_of: Callable[..., tuple[Trials, Invented]],
) -> None:
    trials, program = trials_of({("torch.autocast", "bfloat16"): 12.0})
    trials.try_findings([finding("amp.share")])
    assert set(outcomes(trials).values()) == {"not_tried"}
    assert len(program.turns) == 1

    trials, _ = trials_of({("torch.autocast", "bfloat16"): 12.0}, numerics=True)
    trials.try_findings([finding("amp.share")])
    _, row = trials.rows
    assert row.outcome == "kept"
    assert row.loss is not None
    # The last ten of twenty losses, 0.90 to 0.81, and 0.001 more.
    assert row.loss.before == pytest.approx(0.855)
    assert row.loss.after == pytest.approx(0.856)
    assert row.loss.losses == 20


def test_no_turn_begins_that_would_exceed_the_budget(
    trials_of: Callable[..., tuple[Trials, Invented]],
) -> None:
    """Turns end at 10, 20, 30 and 40 s; a fifth one would end at 50 s."""
    trials, program = trials_of({("torch.num_workers", 2): 16.0}, budget_s=45)
    trials.try_findings([finding("input.bound")])
    assert len(program.turns) == 4
    assert outcomes(trials)["DataLoader(num_workers=2)"] == "kept"
    assert {row.outcome for row in trials.rows[1:]} == {"not_tried"}
    assert trials.summarise_rows((), interrupted=False).ended == "budget"


def test_findings_that_appear_later_are_tried_too(
    trials_of: Callable[..., tuple[Trials, Invented]],
) -> None:
    trials, program = trials_of({("any.gc_freeze", ""): 10.0})
    program.later = (finding("input.bound"),)
    trials.try_findings([finding("gap.gc")])
    assert program.recorded == [("gc.freeze()",)]
    assert trials.rows[-1].finding == "input.bound"


def test_turns_that_differ_widen_the_interval_of_a_change() -> None:
    """Means 40, 38 and 30, 29: the pooled variance is (2 + 0.5) / 2, and the half of
    the interval 4.303 × √1.25 × √(2 / 2) = 4.811 ms around −9.5 ms."""
    change = compare_turns([times(40), times(38)], [times(30), times(29)])
    assert change.change_ms == pytest.approx(-9.5)
    assert change.low_ms == pytest.approx(-14.311, abs=1e-3)
    assert change.high_ms == pytest.approx(-4.689, abs=1e-3)
    assert change.verdict == "faster"


def test_turns_that_overlap_prove_nothing() -> None:
    """Four turns fall into such an order by chance once in six times."""
    change = compare_turns([times(24), times(21)], [times(17), times(16)])
    assert change.verdict == "noise"
    assert change.low_ms < 0 < change.high_ms


def test_a_third_pair_of_turns_decides() -> None:
    """Means 24, 21, 23 and 17, 16, 16: variances 7/3 and 1/3, so the half of the
    interval is 2.776 × √(4/3) × √(2/3) = 2.617 ms around −6.333 ms."""
    before, after = [24, 21, 23], [17, 16, 16]
    change = compare_turns([times(x) for x in before], [times(x) for x in after])
    assert change.high_ms == pytest.approx(-3.716, abs=1e-3)
    assert change.verdict == "faster"


def test_losses_are_compared_as_far_as_both_reach() -> None:
    assert compare_losses((1.0, 0.5), (1.0, 0.5, 0.2)) is None
    change = compare_losses((2.0, 1.0, 0.6), (2.0, 1.3, 0.6, 0.1))
    assert change is not None
    assert change.losses == 3
    assert change.before == pytest.approx(1.2)
    assert change.after == pytest.approx(1.3)
