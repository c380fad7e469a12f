"""What counts against a repetition, and the same step on other threads, by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.support.traces.literal import spans_of
from tests.support.traces.literal_tables import activity_of, correlation_of

from stepscope.derive.sequences import SymbolSequence
from stepscope.derive.steps.inferred import (
    _host_begins,
    _launches_whole_segments,
    _repeats_inside_run,
    _same_on_other_threads,
    _searched_sequences,
)
from stepscope.derive.steps.inferred_candidates import Measured
from stepscope.derive.steps.periods import measure_boundaries

CALLS = [(track, 0, 10 * at, 2) for at, track in enumerate([0, 0, 0, 0, 1, 1])]
CORRELATED = correlation_of(activity_of([(0, 0, "kernel", 0, 0, 1)]), CALLS, [0])


def on_device(launch: list[int] | None, first: list[int]) -> tuple[Any, Any]:
    """A sequence whose entries have these launch calls, and its boundaries."""
    given = None if launch is None else np.array(launch, np.int32)
    starts = np.array(first)
    return (
        SimpleNamespace(launch=given, on_device=True),
        SimpleNamespace(first=starts, n=len(first), start_ps=100 + starts),
    )


@pytest.mark.parametrize(
    ("launch", "first", "whole"),
    [
        ([4, 4, 4, 5, 5, 6, 6, 9, 8], [0, 3, 5, 7], True),  # the last may be cut
        ([4, 4, 4, 5, 7, 6, 6, 9, 8], [0, 3, 5, 7], False),
        ([-1, -1, -1, 5, 5, 6, 6, 9, 9], [0, 3, 5, 7], False),
        ([4, 5, 6, 7], [0, 1, 2, 3], False),  # a kernel is no graph
        ([4, 4, 5, 5], [0, 2], False),
        (None, [0, 1, 2], False),
    ],
)
def test_a_call_of_a_graph_launches_a_whole_segment(
    launch: list[int] | None, first: list[int], *, whole: bool
) -> None:
    assert _launches_whole_segments(*on_device(launch, first)) is whole


def test_nine_of_ten_segments_are_enough_to_be_graphs() -> None:
    for others, whole in ((1, True), (2, False)):
        launch = [at // 2 for at in range(22)]
        for at in range(others):
            launch[4 * at] = 99
        given = on_device(launch, list(range(0, 22, 2)))
        assert _launches_whole_segments(*given) is whole


@pytest.mark.parametrize(
    ("launch", "first", "inside"),
    [
        # The calls 0 and 1, and 2 and 3, run in a program each; 4 and 5 in none.
        ([0, 1, 1, 2, 3, 4], [0, 1, 2, 3, 4, 5], True),  # 6 of 3
        ([0, 0, 2, 4], [0, 1, 2, 3], False),  # 4 of 3
        ([0, 0, 1, 2, 4, 5], [0, 1, 2, 3, 4, 5], True),  # 6 of 4
        ([0, 0, 0, -1], [0, 1, 2, 3], True),
        ([0, 0, -1, -1], [0, 1, 2, 3], False),  # two are too few
        (None, [0, 1, 2], False),
    ],
)
def test_layers_repeat_inside_executions_of_programs(
    launch: list[int] | None, first: list[int], *, inside: bool
) -> None:
    runs = {0: spans_of((0, 15), (19, 35)), 1: spans_of((0, 15))}
    evidence: Any = SimpleNamespace(runs=runs, correlation=CORRELATED)
    assert _repeats_inside_run(evidence, *on_device(launch, first)) is inside
    unknown: Any = SimpleNamespace(runs=runs, correlation=None)
    assert not _repeats_inside_run(unknown, *on_device(launch, first))


def test_segments_of_a_device_begin_on_the_host_with_their_calls() -> None:
    evidence: Any = SimpleNamespace(correlation=CORRELATED)
    given = on_device([0, 1, -1, 3, 4, 5], [1, 2, 3, 5])
    found = _host_begins(evidence, *given, track=7)
    assert found is not None
    assert [each.tolist() for each in found] == [[0, 0, 1], [10, 30, 50]]
    few = on_device([0, 1, -1, 3, 4, 5], [1, 2, 3])
    assert _host_begins(evidence, *few, track=7) is None
    assert _host_begins(evidence, *on_device(None, [1, 2, 3]), track=7) is None
    unknown: Any = SimpleNamespace(correlation=None)
    assert _host_begins(unknown, *given, track=7) is None
    # On the host they are where they are.
    sequence, period = given
    sequence.on_device = False
    found = _host_begins(unknown, sequence, period, track=7)
    assert found is not None
    assert [each.tolist() for each in found] == [[7] * 4, [101, 102, 103, 105]]


def test_the_device_is_searched_first_then_one_thread_then_all() -> None:
    kernels, instructions, main, other, every = "kernels", "run", "0", "4", "all"

    def searched(ops: Any, *given: Any) -> list[Any]:
        evidence: Any = SimpleNamespace(ops=ops)
        return list(_searched_sequences(evidence, *given))

    ops = {0: main, 4: other, -1: every}
    rest = [(main, 0), (every, -1)]
    assert searched(ops, kernels, instructions) == [(kernels, -1), *rest]
    assert searched(ops, None, instructions) == [
        *((main, 0), (instructions, -1), (every, -1))
    ]
    assert searched({4: other}, None, None) == [(other, 4)]
    assert searched({}, kernels, None) == [(kernels, -1)]


# The same step on other threads.


def cycles(labels: list[int], *, begin: int, count: int = 5) -> SymbolSequence:
    """Ops of 2 ps, one after the other, with a pause of 4 before each cycle."""
    symbols = [*range(len(labels))] * count
    gap = np.array([0 if symbol else 4 for symbol in symbols])
    ends = begin + np.cumsum(gap + 2)
    return SymbolSequence(
        what="test",
        symbol=np.array(symbols, np.int32),
        label=np.array(labels, np.int32),
        at_ps=ends - 2,
        weight=np.full(len(symbols), 2),
        work=np.full(len(symbols), 2),
        gap_ps=gap,
        end_ps=int(ends[-1]),
        on_device=False,
    )


def measured_on(
    track: int, sequence: SymbolSequence, *, source: str, label: int, **fields: Any
) -> Measured:
    starts = sequence.at_ps[sequence.label[sequence.symbol] == label]
    plain: dict[str, Any] = {
        "source": source,
        "what": "it",
        "label": label,
        "sequence": sequence,
        "period": measure_boundaries(sequence, starts),
        "track": np.full(len(starts), track, np.int32),
        "slack_ps": None,
        "on_device": False,
    }
    return Measured(**plain | fields)


OPS = {
    2: cycles([7, 8, 9], begin=0),
    0: cycles([7, 8, 9], begin=3),
    # Its cycles begin elsewhere, and it has one more.
    3: cycles([8, 9, 7], begin=1, count=6),
    4: cycles([7, 8, 6], begin=0),  # other ops
    5: cycles([8, 9], begin=0),  # without the first op
    6: cycles([7, 8, 9], begin=0, count=2),  # too few
    -1: cycles([7, 8, 9], begin=0),
}
EVIDENCE: Any = SimpleNamespace(ops=OPS)


def test_a_period_is_searched_on_all_other_threads() -> None:
    best = measured_on(2, OPS[2], source="period", label=7)
    found = _same_on_other_threads(EVIDENCE, best, [best])
    assert [each.track.tolist() for each in found] == [[0] * 5, [3] * 6]
    starts = [each.period.start_ps.tolist() for each in found]
    assert starts[0] == [3 + 4 + 10 * at for at in range(5)]
    assert starts[1] == [1 + 8 + 10 * at for at in range(6)]
    slack = [each.slack_ps for each in found]
    assert [each.tolist() for each in slack if each is not None] == [[4] * 5, [0] * 6]
    for each in found:
        assert (each.source, each.what, each.label) == ("period", "it", 7)
        assert not each.on_device
    # A period of all threads together, or of the device, is on no other thread.
    for track in (-1, 9):
        alone = measured_on(track, OPS[-1], source="period", label=7)
        assert _same_on_other_threads(EVIDENCE, alone, []) == []


def test_launches_on_other_threads_are_the_same_if_they_run_the_same() -> None:
    def launched(track: int, **fields: Any) -> Measured:
        given = {"source": "launch", "label": 7, **fields}
        return measured_on(track, given.pop("sequence", OPS[track]), **given)

    best, same = launched(2), launched(0)
    others = [
        launched(3, label=8),
        launched(4),
        launched(6),
        launched(0, sequence=OPS[2]),  # measured by other work than its thread's
        launched(0, edge=False),
    ]
    assert _same_on_other_threads(EVIDENCE, best, [best, *others, same]) == [same]
