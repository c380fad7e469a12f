"""`step.periodic` over literal accounts and on whole traces."""

from __future__ import annotations

from typing import Any

import pytest
from tests.advice.test_step_outlier import of_lengths
from tests.support.traces.training import findings, on_host, paused

from stepscope.advice.rules.running.slow_steps import judge_rhythm as evaluate


def every(count: int, nth: int, extra_ms: float) -> list[float]:
    return [extra_ms if at % nth == nth - 1 else 0.0 for at in range(count)]


def test_every_fifth_step_is_found(signals_of: Any, shares: Any) -> None:
    one = of_lengths(shares, *every(24, 5, 3.0), owner="output")
    finding = evaluate(signals_of(one))
    assert (finding.status, finding.severity) == ("fail", "warn")
    assert finding.share_percent == pytest.approx(100 * 12 / 252)
    assert finding.causes[0].cause == "output"
    facts = {fact.name: fact.value for fact in finding.facts}
    assert facts["every"] == 5
    assert facts["longer"] == pytest.approx(3_000)


def test_a_tenth_of_the_time_is_critical(signals_of: Any, shares: Any) -> None:
    one = of_lengths(shares, *every(40, 2, 9.0)[1:], 0.0)
    assert evaluate(signals_of(one)).status == "pass"
    one = of_lengths(shares, *every(40, 4, 9.0))
    assert evaluate(signals_of(one)).severity == "critical"


@pytest.mark.parametrize(
    "slow",
    [(3, 4, 11, 19), (2, 9, 10, 20), (), (5, 10)],
    ids=["random", "random too", "none", "twice"],
)
def test_slow_steps_without_a_rhythm_pass(
    signals_of: Any, shares: Any, slow: tuple[int, ...]
) -> None:
    extra = [3.0 if at in slow else 0.0 for at in range(24)]
    finding = evaluate(signals_of(of_lengths(shares, *extra)))
    assert (finding.status, finding.note) == ("pass", None)
    facts = {fact.name: fact.value for fact in finding.facts}
    assert (facts["every"], facts["longest_period"]) == (None, 8)


def test_the_numbers_of_steps_count_where_steps_were_left_out(
    signals_of: Any, shares: Any
) -> None:
    kept = [at for at in range(30) if at not in (6, 17)]
    extra = [3.0 if at % 5 == 4 else 0.0 for at in kept]
    one = of_lengths(shares, *extra)
    numbered = shares(
        steps=len(kept),
        fields={
            "window_ps": one.window_ps,
            "inside_ps": one.inside_ps,
            "numbers": tuple(kept),
        },
    )
    assert evaluate(signals_of(one)).status == "pass"
    finding = evaluate(signals_of(numbered))
    assert finding.status == "fail"
    assert finding.facts[0].value == 5


def test_too_few_steps_cannot_tell(signals_of: Any, shares: Any) -> None:
    one = of_lengths(shares, *every(7, 2, 3.0))
    assert evaluate(signals_of(one)).status == "cannot_tell"
    assert evaluate(signals_of()).status == "cannot_tell"


def test_checkpoints_in_a_rhythm_are_named() -> None:
    found = findings(on_host(pause="checkpoint", pause_us=3_000.0, every=4))
    one = found["step.periodic"]
    assert one.status == "fail"
    assert one.facts[0].value == 4
    assert (one.causes[0].cause, one.parts[0].name) == ("output", "checkpoint")
    # Whoever writes them says so first.
    for name in ("step.periodic", "step.outlier"):
        assert found[name].explained_by == ("gap.output",)


def test_what_comes_in_every_step_has_no_rhythm() -> None:
    found = findings(paused("checkpoint", 3_000.0))["step.periodic"]
    assert found.status == "pass"


def test_without_events_it_cannot_tell() -> None:
    lines = on_host(pause="checkpoint", pause_us=3_000.0, every=4)
    found = findings(lines, without="events")["step.periodic"]
    assert found.status == "cannot_tell"
