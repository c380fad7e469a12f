"""Savings that replays of a small graph predict, worked out by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import polars as pl
import pytest
from tests.support.traces.literal import ABSENT, OTHER, activities, spans_of

from stepscope.derive.facts.evidence import Limits, Saving
from stepscope.derive.facts.savings.predicted_savings import (
    HostReplay,
    ReplaySignals,
    host_replay,
    replay_signals,
)
from stepscope.derive.facts.savings.what_if_changes import Edits, Gone, Quiet, Recorded
from stepscope.derive.replay.activities import NO_STEPS, Sampled
from stepscope.derive.replay.node_times import Gain, Identity
from stepscope.derive.replay.nodes import (
    NEVER,
    EdgeKind,
    Edges,
    Graph,
    NodeKind,
    Nodes,
    link_edges,
    unchanged_edit,
)
from stepscope.derive.step_time.host_time import HostCode
from stepscope.derive.step_time.owners import IDLE_OWNERS
from stepscope.derive.verdicts.effect_status import mean_interval_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

MS = 1_000_000_000
STEPS = 4


def chains(*, other_ms: float = 0.0, steps: int = STEPS, late: int = -1) -> Graph:
    """A thread works 10 ms in each step, another one the given time besides.

    A piece of the thread may have an unexplained delay.
    """
    per_thread = [10.0] + ([other_ms] if other_ms else [])
    lines = [
        (track, round(step * length * MS), round(length * MS))
        for track, length in enumerate(per_thread)
        for step in range(steps)
    ]
    track, start, dur = (np.array(each) for each in zip(*lines, strict=True))
    count = len(lines)
    nodes = Nodes(
        np.full(count, NodeKind.HOST, np.uint8),
        track.astype(np.int32),
        start,
        dur,
        np.full(count, -1, np.int32),
    )
    later = np.array([node for node in range(count) if node % steps])
    line = Edges.make_edges(EdgeKind.THREAD, later - 1, later)
    edges, begin, order = link_edges(nodes, Edges.join_edges([line]))
    return Graph(
        nodes=nodes,
        begin=begin,
        edges=edges,
        order=order,
        slack_ps=np.where(np.arange(count) == late, 5 * MS, 0),
        kept=np.arange(count) == late,
        not_before_ps=np.where(np.arange(count) % steps, NEVER, 0),
        may_wait=np.zeros(count, np.bool_),
        arrival_of=np.full(count, -1, np.int32),
        sampled=Sampled(
            np.arange(steps),
            np.arange(steps + 1) * 10 * MS,
            0,
            by_device=False,
            open_end=False,
        ),
        boundary=np.array([*range(steps), -1], np.int32),
        completes=np.array([node % steps + 1 for node in range(count)], np.int32),
    )


IDENTITY = Identity(
    windows=4,
    median_error_percent=0.25,
    p95_error_percent=0.5,
    unexplained_percent=0.0,
    starts=8,
)
UNRELIABLE = msgspec.structs.replace(IDENTITY, median_error_percent=50.0)


def replay_of(
    graph: Graph, *, identity: Identity = IDENTITY, busy: Any = ABSENT, ran: Any = None
) -> HostReplay:
    idle = dict.fromkeys(IDLE_OWNERS, spans_of())
    account: Any = SimpleNamespace(
        devices=tuple(
            SimpleNamespace(device=device, idle=idle, between=spans_of())
            for device in (None, 0)
        )
    )
    classes: Any = SimpleNamespace(by_thread=ran or {})
    tracks = pl.DataFrame({"device": pl.Series([None, None], dtype=pl.Int32)})
    nothing = np.empty(0, np.int32)
    none = np.empty(0, np.bool_)
    recorded = Recorded(*(graph, account, classes, busy, tracks, nothing, {}, none, {}))
    return HostReplay(recorded, identity, OTHER)


def quiet(
    *lengths_ms: float, at_ms: float = 1.0, effect_ms: float = 3.0, thread: int = 0
) -> Quiet:
    """Removes so much of each step's work, from a time in the step on."""
    spans = [
        (round((10 * step + at_ms) * MS), round((10 * step + at_ms + length) * MS))
        for step, length in enumerate(lengths_ms)
        if length
    ]
    return Quiet(spans_of(*spans), [thread], effect_ms)


TWO = quiet(2, 2, 2, 2)
ONE = quiet(1, 1, 1, 1, at_ms=5.0, effect_ms=1.0)
#: A step of 20 ms, of which the 8 ms that remain leave 12.
WIDE = Limits(None, 20.0)


def signals(graph: Graph | None = None, **fields: Any) -> ReplaySignals:
    replay = replay_of(chains() if graph is None else graph, **fields)
    return ReplaySignals({"vm": replay, "w:1": ABSENT})


def saved(
    *changes: Any, graph: Graph | None = None, limits: Any = WIDE, bound: Any = None
) -> Any:
    saving = signals(graph).saving_of_changes(
        changes, "vm:0", limits=limits, bound=bound
    )
    if saving is None:
        return None
    assert (saving.basis, saving.identity_error_percent) == ("replay", 0.25)
    assert not saving.open_above
    return pytest.approx((saving.low, saving.high))


def test_a_replays_gain_is_scaled_to_the_time_in_the_mean_step() -> None:
    """The sample loses 2 ms of each step, where the mean step would lose 3."""
    assert saved(TWO) == (3.0, 3.0)
    # Of two changes, 3 of 3 ms are replayed, and 3 + 1 are meant.
    assert saved(TWO, ONE) == (4.0, 4.0)
    assert saved(ONE) == (1.0, 1.0)
    assert saved() is None
    # What the sample has nothing of cannot be scaled.
    assert saved(quiet(0, 0, 0, 0)) is None


def test_a_saving_is_at_most_the_lost_time_and_what_the_step_can_lose() -> None:
    assert Limits(None, None).max_saving_ms == math.inf
    assert Limits(3.0, None).max_saving_ms == 3.0
    assert Limits(None, 5.0).max_saving_ms == 5.0
    assert Limits(3.0, 5.0, 1.0).max_saving_ms == 3.0
    assert Limits(4.5, 5.0, 1.0).max_saving_ms == 4.0
    assert Limits(4.5, 1.0, 2.0).max_saving_ms == 0.0


def test_a_saving_leaves_the_work_of_the_busiest_thread() -> None:
    cases: list[tuple[Limits | None, float]] = [
        # The step of 10 ms keeps 8.
        (None, 2.0),
        (Limits(None, None), 2.0),
        (Limits(1.5, None), 1.5),
        (Limits(1.5, 20.0), 1.5),
        (Limits(None, 10.5), 2.5),
        # In a step of half the length, 4 ms remain; or more, if that is known.
        (Limits(None, 5.0), 1.0),
        (Limits(None, 5.0, 4.5), 0.5),
        (Limits(None, 5.0, 3.5), 1.0),
        (Limits(None, 0.0), 0.0),
    ]
    for limits, most in cases:
        assert saved(TWO, limits=limits) == (most, most)


def test_a_saving_is_at_most_its_bound_and_at_least_what_is_sure() -> None:
    """Quieter threads rarely lose all of their time: the bound's low end counts."""
    assert saved(TWO, bound=Saving(low=0.5, high=2.5)) == (0.5, 2.5)
    assert saved(TWO, bound=Saving(low=3.5, high=4.5)) == (3.0, 3.0)


def test_steps_that_differ_make_the_least_saving_less() -> None:
    """Gains of 1, 2, 3 and 2 ms: 2 in the mean, of which the interval's end is sure."""
    found = saved(quiet(1, 2, 3, 2, effect_ms=2.0))
    least = mean_interval_ms([1 * MS, 2 * MS, 3 * MS, 2 * MS])[0]
    assert 1.0 < least < 2.0
    assert found == (least, 2.0)
    # Two steps are too few for an interval, three are enough.
    assert saved(quiet(1, 3, effect_ms=2.0), graph=chains(steps=2)) == (2.0, 2.0)
    least = mean_interval_ms([1 * MS, 2 * MS, 3 * MS])[0]
    assert least < 2.0
    three = saved(quiet(1, 2, 3, effect_ms=2.0), graph=chains(steps=3))
    assert three == (least, 2.0)


def test_a_graph_that_explains_little_of_the_path_predicts_nothing() -> None:
    """A delay of 5 of 45 ms is more than a tenth of the path."""
    assert saved(TWO, graph=chains(late=2)) is None
    assert saved(TWO, graph=chains(late=-1)) is not None


def edited(graph: Graph, *shorter_ms: float, **fields: Any) -> Edits:
    """An edit for the least effect and one for the most, of each step's work."""
    low, high = (
        msgspec.structs.replace(
            unchanged_edit(graph), dur_ps=graph.nodes.dur_ps - round(ms * MS)
        )
        for ms in (shorter_ms * 2)[:2]
    )
    return Edits(low, low if len(shorter_ms) == 1 else high, **fields)


def promised(
    edits: Sequence[Edits], effect_ms: float | None = None, bound: Any = None, **of: Any
) -> Any:
    replay = replay_of(chains(), **of)
    limits = Limits(effect_ms, 100.0)
    saving = replay.promised_saving(edits, limits, bound)
    return None if saving is None else pytest.approx((saving.low, saving.high))


def test_a_gain_is_compared_with_what_is_known_of_the_step() -> None:
    graph = chains()

    def one(claimed_ms: float, compared: Any, **fields: Any) -> Edits:
        return edited(
            graph, 1.0, claimed_ms=claimed_ms, compared=compared, device=False, **fields
        )

    bound = Saving(low=0.0, high=6.0)
    assert promised([one(2.0, "effect")], 5.0) == (2.5, 2.5)
    assert promised([one(2.0, "effect")], 5.0, bound) == (2.5, 2.5)
    assert promised([one(4.0, "bound")], 5.0, bound) == (1.5, 1.5)
    # Lost time counts rather than a bound.
    both = [one(2.0, "effect"), one(3.0, "bound")]
    assert promised(both, 4.0, bound) == (4.0, 4.0)
    # Without a number to compare with, the gain is that of the sample.
    for edits in ([one(2.0, "effect")], [one(2.0, "bound")], [one(2.0, "nothing")]):
        assert promised(edits) == (1.0, 1.0)
    # What changes tell of themselves is added up, and counts before the finding's.
    own = [one(2.0, "effect", effect_ms=1.0), one(2.0, "effect", effect_ms=2.0)]
    assert promised(own, 40.0) == (1.5, 1.5)
    assert promised([*own, one(2.0, "effect")], 40.0) == (1.5, 1.5)
    for claimed in (0.0, -1.0):
        assert promised([one(claimed, "effect")], 5.0) is None
        assert promised([one(claimed, "bound")], 5.0, bound) is None
    assert promised([one(1.0, "effect", partly=True)], 1.0, bound) == (0.0, 1.0)
    mixed = [one(1.0, "effect"), one(1.0, "effect", partly=True)]
    assert promised(mixed, 2.0) == (2.0, 2.0)
    assert promised(mixed, 2.0, bound) == (0.0, 2.0)


def test_two_edits_of_a_change_are_its_range() -> None:
    replay = replay_of(chains())
    ranged = edited(replay.graph, 1.0, 3.0, device=False)
    exact = edited(replay.graph, 0.5, device=False)
    first, second = replay.gains_of_edits([ranged])
    assert (first.high_ps, second.low_ps) == (MS, 3 * MS)
    assert replay.spread_ms((first, second)) == pytest.approx((1.0, 3.0))
    first, second = replay.gains_of_edits([exact])
    assert first is second
    first, second = replay.gains_of_edits([exact, ranged])
    assert (first.high_ps, second.low_ps) == (1.5 * MS, 3.5 * MS)
    assert promised([ranged]) == (1.0, 3.0)
    # After the most that the change may do, 7 of 10 ms remain.
    whole = replay.promised_saving([ranged], Limits(None, 10.0), None)
    assert whole is not None
    assert (whole.low, whole.high) == pytest.approx((1.0, 3.0))


def test_of_two_edits_both_must_be_explained_by_the_graph() -> None:
    """A delay of 5 ms is less than a tenth of 77 ms, and more of 45."""
    replay = replay_of(chains(steps=8, late=2))
    for most_ms, known in ((1.5, True), (5.0, False)):
        ranged = edited(replay.graph, 1.0, most_ms, device=False)
        saving = replay.promised_saving([ranged], WIDE, None)
        assert (saving is not None) == known


@pytest.mark.parametrize(
    ("by_step", "low_ms"),
    [
        # Some steps become so much longer that the gain is not sure.
        ([-40, -40, 10, 10, 70], 0.0),
        ([4, 4, 4, 4], 2.0),
        # A gain that no step shows keeps its size.
        ([0, 0, 0, 0], 2.0),
        ([-1, -1, -1, -1], 2.0),
    ],
)
def test_the_least_gain_is_that_of_the_less_sure_replay(
    by_step: list[int], low_ms: float
) -> None:
    """Bounds have halved the gain of 4 ms; then the interval's end is halved too."""
    steady = np.full(len(by_step), 4 * MS)
    for windows in ((np.array(by_step) * MS, steady), (steady, np.array(by_step) * MS)):
        gain = Gain(2 * MS, 3 * MS, windows, 10 * MS, 0.0, 0.0)
        assert replay_of(chains()).spread_ms((gain, gain)) == (low_ms, 3.0)


def test_nothing_gained_is_exactly_nothing() -> None:
    replay = replay_of(chains())
    assert replay.spread_ms(replay.gains_of_edits([edited(replay.graph, 0.0)])) == (
        0.0,
        0.0,
    )


@pytest.mark.parametrize(
    ("silent_ms", "known"), [(0, True), (0.85, True), (0.95, False), (10, False)]
)
def test_a_silent_thread_may_wait_for_the_changed_device(
    silent_ms: float, *, known: bool
) -> None:
    """Of the 9 ms that remain of a step, a silence of over a tenth is too long."""
    worked = [
        (round(10 * step * MS), round((10 * step + 10 - silent_ms) * MS))
        for step in range(STEPS)
    ]
    busy: Any = SimpleNamespace(
        devices=[SimpleNamespace(device=0, busy=spans_of((0, 40 * MS)))]
    )
    ran = {
        0: {HostCode.FILE_READ: spans_of(*(each for each in worked if silent_ms < 10))}
    }
    graph = chains()
    of_device = edited(graph, 1.0, device=True)
    of_host = edited(graph, 1.0, device=False)
    assert (promised([of_device], busy=busy, ran=ran) is not None) == known
    none = edited(graph, 0.0, device=False)
    assert (promised([none, of_device], busy=busy, ran=ran) is not None) == known
    assert promised([of_host], busy=busy, ran=ran) == (1.0, 1.0)


# --- findings together ---


def together(
    *findings: tuple[Any, Saving], limits: Limits = WIDE, graph: Graph | None = None
) -> Saving | None:
    listed = [((change,), "vm:0", saving) for change, saving in findings]
    return signals(graph).together(listed, limits)


def test_findings_on_one_path_gain_their_sum() -> None:
    first = Saving(low=1.0, high=3.0)
    second = Saving(low=0.5, high=1.5, open_above=True)
    both = together((TWO, first), (ONE, second))
    assert both is not None
    assert (both.low, both.high) == pytest.approx((1.5, 4.5))
    assert (both.basis, both.identity_error_percent) == ("replay", 0.25)
    assert both.open_above
    alone = together((TWO, first))
    assert alone is not None
    assert (alone.low, alone.high, alone.open_above) == (1.0, 3.0, False)
    short = together((TWO, first), (ONE, second), limits=Limits(None, None))
    assert short is not None
    # 7 of 10 ms remain.
    assert (short.low, short.high) == pytest.approx((1.5, 3.0))


def test_findings_beside_other_work_gain_less_than_their_sum() -> None:
    """Beside 8.5 ms, 2 ms less gain 1.5, 1 ms 1.0, and both 1.5 of the 2.5."""
    graph = chains(other_ms=8.5)
    one = Saving(low=0.9, high=1.0)
    both = together((TWO, one), (ONE, one), graph=graph)
    assert both is not None
    assert (both.low, both.high) == pytest.approx((0.6 * 1.8, 0.6 * 2.0))
    # Together they gain at least what the larger gains.
    large = Saving(low=2.0, high=3.0)
    both = together((TWO, large), (ONE, one), graph=graph)
    assert both is not None
    assert (both.low, both.high) == pytest.approx((2.0, 3.0))


def test_findings_without_any_gain_keep_the_largest_saving() -> None:
    nothing = quiet(0, 0, 0, 0)
    both = together(
        (nothing, Saving(low=0.5, high=1.0)), (nothing, Saving(low=0.25, high=2.0))
    )
    assert both is not None
    assert (both.low, both.high) == (0.5, 2.0)


def test_without_a_reliable_replay_nothing_is_predicted() -> None:
    saving = Saving(low=1.0, high=2.0)
    for unusable in (
        signals(identity=UNRELIABLE),
        ReplaySignals({"vm": ABSENT}),
        ReplaySignals({"other": replay_of(chains())}),
    ):
        assert unusable.saving_of_changes((TWO,), "vm:0", limits=WIDE) is None
        assert unusable.together([((TWO,), "vm:0", saving)], WIDE) is None
        assert unusable.next_bottleneck((TWO,), "vm:0") is None
    assert together((TWO, saving), graph=chains(late=2)) is None


def test_labels_name_a_host_or_its_device() -> None:
    found = signals()
    assert [found.host_of_label(label) for label in ("vm", "vm:3", "w:1", "w:1:0")] == [
        *("vm", "vm", "w:1", "w:1")
    ]
    assert [found.device_of_label(label) for label in ("vm", "vm:3", "w:1:0")] == [
        *(None, 3, 0)
    ]
    assert found.usable_replay("vm:0") is found.hosts["vm"]
    assert found.usable_replay("w:1:0") is None


def test_the_reason_of_an_unknown_gain_is_told() -> None:
    assert signals().reason("vm:0") is None
    assert signals().reason("w:1:7") == ABSENT
    assert signals().reason("nobody:0") == NO_STEPS
    assert signals(identity=UNRELIABLE).reason("vm") == UNRELIABLE.why_not


# --- what is collected of a host ---


def test_copies_and_collectives_of_a_host_are_told_apart() -> None:
    activity = activities(
        *(
            (kind, 0, 0, 1)
            for kind in ("kernel", "h2d", "d2h", "collective", "p2p_copy")
        )
    )
    classes = SimpleNamespace(code=np.arange(5, dtype=np.int32))
    topics = SimpleNamespace(devices=[SimpleNamespace(device=3, spans={"garbage": 1})])
    usual: dict[str, Any] = {
        "step_graph": chains(),
        "replay_check": IDENTITY,
        "account": 1,
        "host_classes": 2,
        "tracks": 3,
        "device_activity": activity,
        "activity_classes": classes,
        "device_sets": 4,
        "idle_topics": topics,
        "host_states": 5,
    }
    found = host_replay(**usual)
    recorded = found.recorded
    assert recorded.class_of is classes.code
    columns = {name: mask.tolist() for name, mask in recorded.copies.items()}
    yes, no = True, False
    assert columns == {
        "copy_in": [no, yes, no, no, no],
        "copy_out": [no, no, yes, no, no],
    }
    assert recorded.exchanges.tolist() == [no, no, no, yes, no]
    assert recorded.topics == {3: {"garbage": 1}}
    whole: Any = (recorded.account, recorded.host_classes, recorded.tracks)
    assert (*whole, recorded.device_sets, found.host_states) == (1, 2, 3, 4, 5)
    assert (found.graph, found.identity) == (usual["step_graph"], IDENTITY)
    for missing in ("device_activity", "activity_classes"):
        bare = host_replay(
            **(usual | {missing: ABSENT, "idle_topics": ABSENT})
        ).recorded
        assert (len(bare.class_of), bare.copies, len(bare.exchanges)) == (0, {}, 0)
        assert bare.topics == {}
    assert replay_signals.function(host_replay={"vm": found}).hosts == {"vm": found}


def test_the_profilers_own_time_comes_not_next() -> None:
    class Told(HostReplay, frozen=True):
        def path_owners(self, edits: Sequence[Edits]) -> dict[str, float]:
            assert len(edits) == 1
            return {"profiler": 60.0, "host_compute": 30.0, "input": 10.0}

    usual = replay_of(chains())
    told = Told(usual.recorded, usual.identity, usual.host_states)
    gone = Gone({"input"}, "any")
    assert ReplaySignals({"vm": told}).next_bottleneck((gone,), "vm") == (
        "host_compute",
        30.0,
    )
