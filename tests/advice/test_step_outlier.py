"""`step.outlier` over literal accounts and on whole traces."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.support.traces import blueprint
from tests.support.traces.training import Recorder, findings, together

import stepscope as ss
from stepscope.advice.engine import evaluate as evaluate_all
from stepscope.advice.engine import signals_of as signals_of_profile
from stepscope.advice.headline import choose_lead_sentence
from stepscope.advice.rules.running.slow_steps import judge_outliers as evaluate
from stepscope.derive.facts.evidence import Part
from stepscope.derive.facts.hosts.function_divisions import rare_functions
from stepscope.derive.facts.processors import Processors, processor_signals
from stepscope.derive.facts.step_shares import NamedTime
from stepscope.reporting.words.findings import lead_sentence

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.advice.signals import Signals

MS = 1_000_000_000


def of_lengths(shares: Any, *extra_ms: float, owner: str = "input") -> Any:
    """Steps of 10 ms, each longer by what one owner takes of it."""
    one = shares(steps=len(extra_ms), **{owner: list(extra_ms)})
    window = tuple(round((10 + ms) * MS) for ms in extra_ms)
    inside = one.inside_ps | {"compute_16": (10 * MS,) * len(extra_ms)}
    return shares(
        steps=len(extra_ms), fields={"window_ps": window, "inside_ps": inside}
    )


def test_slow_steps_are_found_with_what_they_spend_more(
    signals_of: Any, shares: Any
) -> None:
    one = of_lengths(shares, *[0.0] * 5, 30.0, 0.0, 0.0, 25.0, *[0.0] * 5)
    finding = evaluate(signals_of(one))
    assert (finding.status, finding.severity) == ("fail", "info")
    assert finding.share_percent == pytest.approx(100 * 55 / 195)
    assert [(it.cause, it.share_percent) for it in finding.causes] == [
        ("input", pytest.approx(100 * 55 / 195))
    ]
    facts = {fact.name: fact.value for fact in finding.facts}
    assert (facts["slow"], facts["steps"], facts["slowest"]) == (2, 14, 4.0)
    # Its time is that of other findings, which promise it.
    assert finding.saving_ms is None


def test_slow_steps_all_over_the_recording_are_a_warning(
    signals_of: Any, shares: Any
) -> None:
    one = of_lengths(shares, *[0.0, 0.0, 0.0, 0.0, 8.0] * 8)
    finding = evaluate(signals_of(one))
    assert (finding.status, finding.severity) == ("fail", "warn")


def test_the_same_work_that_takes_longer_is_a_note(
    signals_of: Any, shares: Any
) -> None:
    for slow in ([0.0, 0.0, 0.0, 0.0, 8.0] * 8, [*[0.0] * 6, 40.0, 0.0, 0.0, 9.0]):
        one = of_lengths(shares, *slow, owner="host_compute")
        finding = evaluate(signals_of(one))
        assert (finding.status, finding.severity) == ("fail", "info")
        assert finding.note == "same_work"


@pytest.mark.parametrize(
    ("own", "function", "expected"),
    [
        (3.0, None, ("info", "others")),
        (9.0, None, ("warn", None)),
        # Others do not call a function of the program in these steps only.
        (3.0, Part(name="shuffle", share_percent=44.4), ("warn", None)),
    ],
)
def test_slow_steps_on_a_machine_that_others_use_are_a_note(
    signals_of: Any,
    shares: Any,
    own: float,
    function: Part | None,
    expected: tuple[str, str | None],
) -> None:
    """All 16 cores are busy, with the program's own work or that of others."""
    one = of_lengths(shares, *[0.0, 0.0, 0.0, 0.0, 8.0] * 8)
    cores = Processors(
        cores=16, waiting_percent=(50.0,) * 40, machine=15.9, own=own, threads=16
    )
    rarely = SimpleNamespace(of=lambda *_: function)
    signals = signals_of(
        one, {processor_signals: {one.host: cores}, rare_functions: {one.host: rarely}}
    )
    finding = evaluate(signals)
    assert finding.status == "fail"
    assert (finding.severity, finding.note) == expected


@pytest.mark.parametrize(
    ("extra", "slow"),
    [([0.0] * 10, 0), ([0.1, 0.2, 0.3] * 4, 0), ([1.9] + [0.0] * 10, 0)],
    ids=["alike", "spread", "below 1.2 times"],
)
def test_usual_steps_pass(
    signals_of: Any, shares: Any, extra: list[float], slow: int
) -> None:
    finding = evaluate(signals_of(of_lengths(shares, *extra)))
    assert (finding.status, finding.note) == ("pass", None)
    assert finding.facts[0].value == slow


def test_a_slow_step_that_costs_little_is_told_and_passes(
    signals_of: Any, shares: Any
) -> None:
    one = of_lengths(shares, *[0.0] * 60, 8.0)
    finding = evaluate(signals_of(one))
    assert (finding.status, finding.note) == ("pass", "rare")


def test_two_kinds_of_steps_are_no_outliers(signals_of: Any, shares: Any) -> None:
    one = of_lengths(shares, *[0.0] * 6, *[9.0] * 6)
    assert evaluate(signals_of(one)).note is None


def test_too_few_steps_cannot_tell(signals_of: Any, shares: Any) -> None:
    one = of_lengths(shares, *[0.0] * 6, 30.0)
    assert evaluate(signals_of(one)).status == "cannot_tell"
    assert evaluate(signals_of()).status == "cannot_tell"


def slow_once(extra_us: float) -> list[Any]:
    """B1s; before its sixth step the program waits for its batch."""
    made = Recorder()
    begin = 10_000.0 * 5
    for track, name, start, dur, *rest in together():
        late = extra_us if start >= begin else 0.0
        made.lines.append((track, name, start + late, dur, *rest))
    fetch = min(line[2] for line in made.lines if line[2] >= begin + extra_us)
    made.host("IteratorGetNext", fetch - extra_us + 1.0, extra_us - 2.0)
    return made.lines


def uneven(*, slow_us: float, waits: bool = False) -> Signals:
    """Of 40 steps of 10 ms each waits 2 ms for its batch, and five take longer.

    Args:
        slow_us: By how much these take longer.
        waits: Whether they wait for their batches; else they compute.
    """
    made = Recorder()
    begin = 0.0
    for number in range(40):
        more = slow_us if number in {4, 11, 17, 26, 33} else 0.0
        waiting = 2_000.0 + more * waits
        made.mark(number, begin, 9_990.0 + more)
        made.host("IteratorGetNext", begin + 5.0, waiting)
        op = ("main", "model/layer/MatMul:MatMul", begin + waiting + 10.0)
        made.lines.append((*op, 9_970.0 + more - waiting, {"is_eager": 0}))
        begin += 10_000.0 + more
    trace = blueprint.trace(made.lines, devices={})
    return signals_of_profile(blueprint.profile(trace))


def test_what_few_steps_lose_that_hold_most_of_the_time_is_said_first() -> None:
    """By hand: 5 of 98 ms and 35 of 10: they hold 490 of 840 ms, 440 beyond the median.

    The report began with the 9.4 % in which all steps wait for their batches.
    """
    signals = uneven(slow_us=88_000.0)
    found = {one.id: one for one in evaluate_all(signals)}
    assert found["input.bound"].status == "fail"
    said = choose_lead_sentence(tuple(found.values()), signals)
    assert said.finding == "step.outlier"
    assert lead_sentence(found["step.outlier"]) == (
        "5 of 40 steps take 58.3 % of the time: compared with usual steps they lose "
        "52.4 % of the time, most of it host compute."
    )


def test_a_finding_about_what_few_steps_lose_is_said_instead_of_them() -> None:
    signals = uneven(slow_us=88_000.0, waits=True)
    found = {one.id: one for one in evaluate_all(signals)}
    assert found["step.outlier"].explained_by == ("input.bound",)
    assert choose_lead_sentence(tuple(found.values()), signals).finding == "input.bound"


def test_what_few_steps_lose_that_hold_less_than_half_of_the_time_is_not() -> None:
    """Of 20 ms: they hold 100 of 450 ms, and lose 50 of these."""
    signals = uneven(slow_us=10_000.0)
    assert choose_lead_sentence(evaluate_all(signals), signals).finding == "input.bound"


def test_one_slow_fetch_is_a_note_that_names_it() -> None:
    finding = findings(slow_once(30_000.0))["step.outlier"]
    assert (finding.status, finding.severity, finding.note) == ("fail", "info", "once")
    assert finding.causes[0].cause == "input"
    assert finding.parts[0].name == "IteratorGetNext"
    (slow,) = finding.evidence
    assert slow.end_ps - slow.start_ps == pytest.approx(40 * MS, rel=0.02)


@pytest.mark.parametrize("table", ["events"])
def test_without_a_table_it_cannot_tell(table: str) -> None:
    found = findings(slow_once(30_000.0), without=table)["step.outlier"]
    assert found.status == "cannot_tell"


def validated(*, name: str) -> list[Any]:
    """Steps of 10 ms; in two of them a function runs for 30 ms more."""
    made = Recorder()
    begin = 0.0
    for number in range(16):
        rare = number in {4, 11}
        length = 40_000.0 if rare else 10_000.0
        made.mark(number, begin, length - 10.0)
        for at in range(4):
            each = length / 4
            start = begin + each * at + 5.0
            made.host("model/layer/MatMul:MatMul", start, each - 10.0)
        if rare and name:
            made.host(name, begin + 10_001.0, 29_980.0)
        begin += length
    return [("main", "app/train.py(1): <module>", 0.0, begin), *made.lines]


def test_a_function_of_the_slow_steps_alone_is_named() -> None:
    """It has 2 times 29.98 of 219.99 ms: the last step ends with its marker."""
    found = findings(validated(name="app/train.py(9): validate"))["step.outlier"]
    assert (found.status, found.note) != ("fail", "same_work")
    first = found.parts[0]
    assert (first.function, first.file, first.line) == ("validate", "app/train.py", 9)
    assert first.share_percent == pytest.approx(100 * 2 * 29.98 / 219.99)
    assert lead_sentence(found).startswith("`validate` (train.py:9) makes 2 of ")
    assert found.actions[0].cause == "function"


def test_a_function_of_every_step_does_not_make_some_of_them_slow() -> None:
    lines = validated(name="")
    lines += [
        ("main", "app/train.py(9): step", start, 9_000.0)
        for _, name, start, *_ in lines
        if name == "train"
    ]
    found = findings(lines)["step.outlier"]
    assert (found.status, found.note) == ("fail", "same_work")
    assert not any(part.function for part in found.parts)
    assert found.actions[0].cause == "any"


def test_work_with_a_name_is_the_same_work_still(repository: Path) -> None:
    """A loop of JAX's jitted step, which runs ahead: its steps differ by chance."""
    profile = ss.open(repository / "tests/data/jax_ahead")
    finding = evaluate(signals_of_profile(profile))
    assert finding.parts
    assert (finding.severity, finding.note) == ("info", "same_work")


def prolonged(*functions: str) -> list[Any]:
    """Steps of 5 ms, two of them of 50: the same four ops take longer."""
    made = Recorder()
    begin = 0.0
    for number in range(16):
        length = 50_000.0 if number in {4, 11} else 5_000.0
        made.mark(number, begin, length - 10.0)
        for at in range(4):
            start = begin + length / 4 * at + 5.0
            made.host("model/layer/MatMul:MatMul", start, length / 4 - 10.0)
        made.lines += [("main", it, begin + 2.0, length - 14.0) for it in functions]
        begin += length
    return [("main", "app/train.py(1): <module>", 0.0, begin), *made.lines]


def test_a_function_that_fills_every_step_does_not_make_long_ones_slow() -> None:
    """The story: `learn`, which is the step, was to be done more rarely."""
    found = findings(prolonged("app/train.py(9): learn"))["step.outlier"]
    assert (found.status, found.note) == ("fail", "same_work")
    assert not any(part.function for part in found.parts)
    assert found.actions[0].cause == "any"


def test_the_loop_around_the_steps_is_not_what_makes_some_slow(
    signals_of: Any, shares: Any
) -> None:
    extra = [0.0] * 5 + [60.0, 0.0, 0.0, 55.0] + [0.0] * 5
    loop, fetch = (
        NamedTime(
            owner="input",
            place="inside",
            name=name,
            function=name,
            loop=name == "main",
            time_ps=ms * MS,
        )
        for name, ms in (("main", 80), ("fetch", 35))
    )
    for names, told in (([loop, fetch], ()), ([fetch], ()), ([loop], ())):
        one = of_lengths(shares, *extra)
        one = msgspec.structs.replace(one, names=tuple(names))
        found = evaluate(signals_of(one))
        assert found.status == "fail"
        assert tuple(part.name for part in found.parts) == told
