"""Times of functions in the steps of a literal host, worked out by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.support.traces.literal import (
    ABSENT,
    Tables,
    events_at,
    spans_of,
    types_named,
    windows_at,
)
from tests.support.traces.literal_functions import frames_of, named

from stepscope.derive.facts.evidence import Part
from stepscope.derive.facts.hosts import function_runs as module
from stepscope.derive.facts.hosts.function_runs import (
    FunctionRuns,
    FunctionTime,
    function_runs,
)
from stepscope.derive.facts.hosts.own_lines import OwnLines
from stepscope.derive.facts.hosts.ran_ops import RanOps, SampledTime
from stepscope.derive.host.function_purposes import FunctionPurposes
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.step_time.host_time import HostCode

if TYPE_CHECKING:
    from stepscope.derive.facts.savings.what_if_changes import Quiet

MS = 1_000_000_000
#: One sample in a millisecond.
SLOW_HZ = 1e3
NOTHING = Spans.empty()
NAMES = [named(name) for name in ("loop", "work", "inner", "ask")]
LOOP, WORK, INNER, ASK = range(4)
NAMES += [named("predict", library=True), named("start", library=True)]
PREDICT, START = 4, 5


def ran(*ops: tuple[int, int, int], **passes: Any) -> RanOps:
    """Ops: start, end and kind; none is of a backward or forward pass, unless told."""
    start, end, kind = (np.array([op[at] for op in ops], np.int64) for at in range(3))
    none = np.zeros(int(kind.max(initial=-1)) + 1, np.bool_)
    backward, forward = (
        none | np.array(passes.get(name, none)) for name in ("backward", "forward")
    )
    return RanOps(start, end, kind, backward, forward, passes.get("nodes", 0))


def runs_of(
    *rows: tuple[int, int, int, int, int],
    names: Any = NAMES,
    hz: float | None = 1e11,
    works: dict[str, tuple[int, ...]] | None = None,
    steps: tuple[tuple[int, int], ...] = ((0, 500), (500, 1000)),
    **fields: Any,
) -> FunctionRuns:
    """One thread, track 1; the host computes in all steps, unless told."""
    everywhere = spans_of(*steps)
    return FunctionRuns(
        **{
            "host": "vm",
            "frames": frames_of(names, *(rows or [(0, 9, 0, 0, -1)]), hz=hz),
            "purposes": FunctionPurposes(np.zeros(0, np.uint8), works or {}),
            "tracks": (1,),
            "inside": everywhere,
            "working": everywhere,
            "starts_ps": np.array([start for start, _ in steps], np.int64),
            "ends_ps": np.array([end for _, end in steps], np.int64),
            "threads": (1, 4),
            "called": ran(),
            "ran": ran(),
            "exchanging": NOTHING,
            "collecting": NOTHING,
            **fields,
        }
    )


def part_of(kind: int, **fields: Any) -> Part:
    name = NAMES[kind]
    return Part(
        **{
            "name": name.function,
            "function": name.function,
            "file": name.file,
            "line": name.line,
            "share_percent": 0.0,
            **fields,
        }
    )


def time_of(runs: FunctionRuns, kind: int = WORK) -> FunctionTime:
    return runs.time_of_function(part_of(kind))


# --- all functions of a host ---


@pytest.mark.parametrize(("inside", "innermost"), [((0, 1000), 0), ((0, 160), 1)])
def test_a_callee_with_most_of_the_work_is_the_innermost(
    inside: tuple[int, int], innermost: int
) -> None:
    """`work` takes 200 ps, then waits from 160 on; `inner` takes 80 ps of it."""
    runs = runs_of(
        *((WORK, 1, 60, 260, -1), (INNER, 1, 60, 140, 0)), inside=spans_of(inside)
    )
    times = [time_of(runs), time_of(runs, INNER)]
    assert runs.innermost_called(times) == innermost


def test_a_function_that_mostly_computes_is_one_of_the_programs_own() -> None:
    names = [*NAMES, named("<lambda>"), named("unknown", library=None)]
    runs = runs_of(
        (LOOP, 1, 0, 950, -1),
        *((WORK, 1, 100, 200, 0), (INNER, 1, 300, 401, 0), (PREDICT, 1, 100, 150, 0)),
        *((6, 1, 100, 110, 0), (7, 1, 100, 110, 0), (ASK, 2, 100, 150, -1)),
        names=names,
        working=spans_of((100, 150), (300, 350)),
    )
    assert runs.own_functions() == (part_of(WORK),)


@pytest.mark.parametrize(
    ("end", "inside", "found"),
    [(950, 1000, ()), (949, 1000, (WORK,)), (950, 1001, (WORK,)), (0, 1000, ())],
)
def test_the_loop_around_the_steps_is_no_function_of_them(
    end: int, inside: int, found: tuple[int, ...]
) -> None:
    runs = runs_of((WORK, 1, 0, end, -1), inside=spans_of((0, inside)))
    assert runs.own_functions() == tuple(part_of(kind) for kind in found)


@pytest.mark.parametrize(
    ("predicts", "begun", "found"),
    [
        # The inner one of two functions that predict for half of their time.
        ([(0, 500)], 2, (INNER,)),
        ([(0, 495)], 2, (INNER,)),
        ([(0, 490)], 2, ()),
        ([(0, 500)], 1, ()),
    ],
)
def test_of_functions_that_predict_the_innermost_is_the_programs(
    predicts: list[tuple[int, int]], begun: int, found: tuple[int, ...]
) -> None:
    runs = runs_of(
        *((ASK, 1, 0, 1000, -1), (INNER, 1, 0, 990, 0)),
        *((PREDICT, 1, start, end, 1) for start, end in predicts),
        *((START, 1, 600 + at, 601 + at, 1) for at in range(begun)),
        works={"predicts": (PREDICT,), "begins_prediction": (START,)},
        working=NOTHING,
    )
    assert runs.predicts_often is (begun > 1)
    assert runs.own_functions() == tuple(part_of(kind) for kind in found)


def test_own_functions_come_before_one_that_predicts() -> None:
    runs = runs_of(
        *((LOOP, 1, 0, 1000, -1), (PREDICT, 1, 0, 300, 0)),
        *((PREDICT, 1, 300, 700, 0), (WORK, 1, 700, 800, 0)),
        works={"predicts": (PREDICT,)},
    )
    assert runs.own_functions() == (part_of(WORK), part_of(LOOP))


def test_functions_run_on_some_threads_in_the_steps() -> None:
    runs = runs_of(
        *((WORK, 1, 10, 60, -1), (WORK, 1, 50, 80, 0), (INNER, 1, 90, 95, -1)),
        *((WORK, 1, 950, 1200, -1), (WORK, 2, 300, 400, -1), (WORK, 3, 70, 85, -1)),
        tracks=(3, 1),
    )
    own = spans_of((10, 85), (950, 1000))
    assert runs.spans_of_types([WORK]) == own
    assert runs.spans_of_types([INNER, WORK]) == own | spans_of((90, 95))
    assert runs.spans_of_types([LOOP]) == runs.spans_of_types([]) == NOTHING
    unknown = runs.time_of_function(Part(name="x", function="x", share_percent=1.0))
    assert (unknown.kinds, unknown.seen) == ((), NOTHING)
    assert runs.total_ps == 1000
    assert runs_of(steps=()).total_ps == 1


@pytest.mark.parametrize(
    ("length", "hz", "blurred"),
    [(30, 1e11, True), (31, 1e11, False), (30, None, False)],
)
def test_three_samples_of_the_median_step_are_too_few(
    length: int, hz: float | None, *, blurred: bool
) -> None:
    steps = ((0, 1), (10, 10 + length), (100, 1000))
    assert runs_of(steps=steps, hz=hz).is_blurred is blurred
    assert not runs_of(steps=(), hz=hz).is_blurred


def test_silence_is_a_millisecond_without_ops() -> None:
    runs = runs_of(
        steps=((0, 10 * MS),),
        working=spans_of((0, 9 * MS), (9 * MS + 1, 20 * MS)),
        inside=spans_of((0, 10 * MS)),
        ran=ran((MS, 2 * MS, 0), (3 * MS - 1, 9 * MS, 0)),
        called=ran((0, 10 * MS, 0)),
    )
    quiet = spans_of((0, MS), (2 * MS, 3 * MS - 1), (9 * MS + 1, 10 * MS))
    assert runs.quiet == quiet
    assert runs.silence == spans_of((0, MS))


def test_lines_run_outside_of_ops() -> None:
    """Ops of the program's threads, of other threads, and of a pool's threads."""
    lines: Any = object()
    given: dict[str, Any] = {
        "lines": lines,
        "inside": spans_of((0, 400)),
        "working": spans_of((100, 500)),
        "called": ran((150, 160, 0)),
        "ran": ran((150, 160, 0), (200, 210, 1)),
        "pooled": spans_of((150, 160), (300, 310)),
    }
    found = runs_of(**given).line_runs
    assert found is not None
    assert found.working == spans_of((100, 150), (160, 400))
    assert found.unshared == spans_of((100, 150), (160, 200), (210, 300), (310, 400))
    assert (found.lines, found.hz, found.tracks) == (lines, 1e11, (1,))
    assert found.inside == spans_of((0, 400))
    assert runs_of(**given, hz=None).line_runs is None
    assert runs_of(**given | {"lines": None}).line_runs is None


def test_a_function_with_most_of_the_collections_collects() -> None:
    rows = ((LOOP, 1, 0, 1000, -1), (WORK, 1, 100, 200, 0))
    runs = runs_of(*rows, collecting=spans_of((100, 180), (1000, 2000)))
    assert runs.collector == part_of(WORK, share_percent=8.0)
    assert runs_of(*rows).collector is None


# --- the time of a function ---


def fields_of_time(time: SampledTime) -> tuple[Spans, Spans, int]:
    return time.ran, time.seen, time.of_ps


def removed(change: Quiet) -> tuple[Spans, Any, float]:
    return change.spans, change.threads, change.effect_ms


def test_a_margin_of_half_a_period_is_cut_from_samples() -> None:
    """Of a period of 10 ps; of 8 ps only a quarter, of 3 ps nothing."""
    rows = ((WORK, 1, 100, 200, -1), (WORK, 1, 300, 308, -1), (WORK, 1, 400, 403, -1))
    seen = spans_of((100, 200), (300, 308), (400, 403))
    certain = spans_of((105, 195), (302, 306), (400, 403))
    assert fields_of_time(time_of(runs_of(*rows)).sampled) == (certain, seen, 1000)
    exact = time_of(runs_of(*rows, hz=None))
    assert fields_of_time(exact.sampled) == (seen, seen, 0)
    assert exact.looks is None
    assert time_of(runs_of(*rows)).looks == 11
    assert time_of(runs_of((WORK, 1, 0, 26, -1))).looks == 3


def test_ops_that_run_mostly_elsewhere_are_none_of_the_functions_time() -> None:
    runs = runs_of(
        *((WORK, 1, 100, 200, -1), (WORK, 1, 450, 550, -1)),
        hz=None,
        called=ran((110, 120, 0), (190, 400, 1), (540, 700, 1)),
    )
    time = time_of(runs)
    assert time.calls == spans_of((100, 190), (450, 540))
    assert time.times_ps == (90 + 50, 40)
    assert time.ops_percent == pytest.approx(100 * 10 / 180)
    change = time.removal_change(effect_ms=2.0, only=None)
    assert removed(change) == (time.calls, (1, 4), 2.0)
    some = spans_of((1, 2))
    change = time.removal_change(effect_ms=2.0, only=some)
    assert removed(change) == (some, (1, 4), 2.0)


def test_with_few_samples_a_step_only_the_sum_of_times_is_known() -> None:
    """Other ops take 72 of 90 ps, and the function has the 18 without them."""
    runs = runs_of(
        *((WORK, 1, 0, 20, -1), (WORK, 1, 40, 50, -1)),
        steps=((0, 30), (30, 60), (60, 90)),
        called=ran((12, 15, 0), (20, 40, 0), (45, 90, 0), (16, 20, 0)),
    )
    time = time_of(runs)
    assert time.calls == spans_of((0, 12), (15, 16), (40, 45))
    assert time.times_ps == (13, 5, 0)


def test_the_longest_time_in_a_blurred_step_is_the_step() -> None:
    """Of 20 ps seen 8 are an op's, most of whose time is elsewhere."""
    runs = runs_of(
        (WORK, 1, 2, 22, -1),
        steps=((0, 20), (20, 40), (40, 60)),
        called=ran((10, 18, 0), (40, 50, 0), (51, 60, 0)),
    )
    time = time_of(runs)
    assert time.calls == spans_of((2, 10), (18, 22))
    # min(20, 60 - 27) = 20 ps are 20 / 12 of the calls: 10 → 16.7 and 2 → 3.3.
    assert time.times_ps == (16, 3, 0)
    full = runs_of(
        (WORK, 1, 0, 30, -1),
        steps=((0, 20), (20, 40), (40, 60)),
        called=ran((20, 30, 0), (50, 60, 0), (40, 50, 0)),
    )
    assert time_of(full).calls == spans_of((0, 20))
    assert time_of(full).times_ps == (20, 0, 0)


def test_shares_of_a_functions_time() -> None:
    runs = runs_of(
        *((WORK, 1, 100, 300, -1), (INNER, 1, 150, 180, 0), (ASK, 1, 170, 250, 0)),
        works={"parses": (INNER,), "copies": (ASK,)},
        collecting=spans_of((0, 140), (600, 700)),
        called=ran((200, 250, 0)),
    )
    time = time_of(runs)
    assert time.percent_within(spans_of((0, 110), (290, 900))) == 10.0
    assert time.percent_of_work("parses") == 15.0
    assert time.percent_of_work("parses", "copies") == 50.0
    assert time.percent_of_work("writes") == 0.0
    assert time.collects_percent == 4.0
    assert time.ops_percent == 25.0
    assert not time.repeats
    nothing = time_of(runs, LOOP)
    assert nothing.percent_within(spans_of((0, 900))) == nothing.ops_percent == 0.0


def test_lines_of_a_function_limit_its_time() -> None:
    def lines(first: int, last: int, *spans: tuple[int, int]) -> OwnLines:
        return OwnLines(first, last, spans_of(*spans), NOTHING, 0, 1)

    runs = runs_of((WORK, 1, 100, 300, -1), (WORK, 1, 400, 500, -1))
    whole = time_of(runs)
    assert whole.own_lines == ()
    assert whole.repeats
    known = {"own_lines": (lines(5, 6, (90, 120)), lines(7, 8, (130, 140), (390, 410)))}
    whole.__dict__.update(known)
    runs.__dict__["_functions"] = {part_of(WORK).key: whole}
    first = runs.time_of_function(part_of(WORK, lines=(5, 6)))
    assert (first.kinds, first.seen) == ((WORK,), spans_of((100, 120)))
    assert not first.repeats
    second = runs.time_of_function(part_of(WORK, lines=(7, 8)))
    assert second.seen == spans_of((130, 140), (400, 410))
    assert second.repeats
    assert runs.time_of_function(part_of(WORK, lines=(5, 8))).seen == NOTHING


# --- work while no op runs ---


def alone_in(*ops: tuple[int, int, int], **fields: Any) -> Spans:
    """The function runs from 1 to 9 ms of ten, and another in it from 2 to 6."""
    return time_of(
        runs_of(
            (LOOP, 1, 0, 10 * MS, -1),
            (WORK, 1, MS, 9 * MS, 0),
            (INNER, 1, 2 * MS, 6 * MS, 1),
            hz=SLOW_HZ,
            steps=((0, 10 * MS),),
            ran=ran(*ops),
            **fields,
        )
    ).alone


def test_a_function_works_alone_between_ops() -> None:
    # Without ops half of the silence is the other function's.
    assert alone_in() == spans_of((MS, 2 * MS), (6 * MS, 9 * MS))
    # With ops a quarter of it is, and all of it is this one's: 4 of 8 ms.
    half = (MS, 5 * MS, 0)
    assert alone_in(half) == spans_of((5 * MS, 9 * MS))
    less = (MS, 5 * MS + 2, 0)
    assert alone_in(less) == NOTHING
    awake = spans_of((5 * MS, 8 * MS + 200_000_001))
    assert alone_in(less, awake=awake) == spans_of((5 * MS + 2, 9 * MS))
    awake = spans_of((5 * MS + 2, 8 * MS + 200_000_000))
    assert alone_in(less, awake=awake) == NOTHING
    assert alone_in((0, 10 * MS, 0)) == NOTHING


def test_a_function_that_nothing_calls_works_alone() -> None:
    runs = runs_of((LOOP, 1, MS, 9 * MS, -1), hz=SLOW_HZ, steps=((0, 10 * MS),))
    assert time_of(runs, LOOP).alone == spans_of((MS, 9 * MS))
    elsewhere = time_of(
        runs_of((LOOP, 2, MS, 9 * MS, -1), hz=SLOW_HZ, steps=((0, 10 * MS),)), LOOP
    )
    assert elsewhere.alone == NOTHING


def test_pauses_below_a_millisecond_prove_nothing() -> None:
    """One of 1 ms is less than half beside three of 0.9 ms, and more beside one."""
    awake = spans_of((0, 10 * MS))
    ops = [
        (round(begin * MS), round(end * MS), 0)
        for begin, end in ((0, 4), (4.9, 5), (5.9, 6), (6.9, 8))
    ]
    # Quiet are 0.9 three times, and 1 ms from 8 to 9.
    quiet = spans_of(
        *((round(a * MS), round(b * MS)) for a, b in ((4, 4.9), (5, 5.9), (6, 6.9))),
        (8 * MS, 9 * MS),
    )
    assert alone_in(*ops, awake=awake) == NOTHING
    two = [*ops[:1], (4 * MS, 6 * MS, 0), *ops[2:]]
    assert alone_in(*two, awake=awake) == quiet - spans_of((0, 6 * MS))
    assert alone_in(*two) == NOTHING


# --- the model ---


@pytest.mark.parametrize(("caller", "calls"), [(INNER, True), (PREDICT, False)])
def test_numpy_counts_where_the_program_itself_calls_it(
    caller: int,
    calls: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """`PREDICT` is a library: JAX itself uses NumPy, and can be compiled."""
    rows = [(WORK, 1, 0, 9, -1), (caller, 1, 1, 8, 0), (START, 1, 2, 3, 1)]
    found = time_of(runs_of(*rows, works={"computes_in_numpy": (START,)}))
    assert found.calls_numpy is calls


MODEL = {"runs_the_model": (INNER,), "trains": (ASK,)}


def test_a_function_asks_the_model_if_it_does_not_train() -> None:
    asks = time_of(runs_of((WORK, 1, 0, 9, -1), (INNER, 1, 1, 8, 0), works=MODEL))
    assert asks.asks_the_model
    assert asks.calls_work("runs_the_model")
    assert not asks.calls_work("trains")
    assert not asks.calls_the_model
    both = time_of(
        runs_of(
            *((WORK, 1, 0, 9, -1), (INNER, 1, 1, 8, 0), (ASK, 1, 2, 3, 1)), works=MODEL
        )
    )
    assert not both.asks_the_model
    assert both.calls_the_model
    neither = time_of(runs_of((WORK, 1, 0, 9, -1), works=MODEL))
    assert not neither.asks_the_model


def test_a_function_that_the_model_calls_is_in_it() -> None:
    inside = runs_of((INNER, 1, 0, 9, -1), (WORK, 1, 1, 8, 0), works=MODEL)
    assert time_of(inside).is_in_the_model
    assert not time_of(inside, INNER).is_in_the_model
    around = runs_of((WORK, 1, 0, 9, -1), (INNER, 1, 1, 8, 0), works=MODEL)
    assert not time_of(around).is_in_the_model


@pytest.mark.parametrize(
    ("steps", "ops", "is_step"),
    [
        # In half of the steps one pass is enough: the forward ops of kind 0.
        (((0, 500), (500, 1000)), ((110, 120, 0), (600, 650, 1)), True),
        (((0, 300), (300, 600), (600, 1000)), ((110, 120, 0), (700, 750, 1)), False),
        (((0, 300), (300, 600), (600, 1000)), ((110, 120, 0), (130, 140, 1)), True),
        (((0, 500), (500, 1000)), ((10, 20, 0), (600, 650, 1)), False),
    ],
)
def test_the_step_contains_a_pass_or_in_few_steps_both(
    steps: Any, ops: Any, *, is_step: bool
) -> None:
    passes = {"forward": [True, False], "backward": [False, True], "nodes": 1}
    model = ran(*ops, **passes)
    runs = runs_of(
        (WORK, 1, 100, 200, -1), steps=steps, hz=None, ran=model, called=ran()
    )
    assert time_of(runs).is_the_step is is_step
    assert not time_of(runs).calls_the_model
    runs = runs_of(
        *((WORK, 1, 100, 200, -1),),
        steps=steps,
        hz=None,
        ran=model,
        called=ran((110, 115, 0)),
    )
    assert time_of(runs).calls_the_model is is_step


# --- from tables ---

OP, GARBAGE = HostCode.HOST_COMPUTE, HostCode.GARBAGE
EVENTS = (
    *((0, 1, 10, 5, OP), (0, 1, 60, 5, GARBAGE), (0, 1, 450, 5, OP)),
    *((0, 2, 20, 5, OP), (0, 2, 70, 5, GARBAGE)),
    *((0, 3, 30, 5, OP), (0, 3, 80, 5, GARBAGE)),
    *((0, 4, 40, 5, OP), (0, 4, 90, 5, GARBAGE)),
)
WHERE = [("p", 1, track) for track in range(5)]


def derived(
    *,
    marked: bool = True,
    framed: int = 3,
    of_framework: tuple[int, ...] = (1, 2),
    device: int | None = None,
    **given: Any,
) -> Any:
    """Thread 1 has a marker in one window, 2 launches, 3 is another of the host."""
    evidence = np.zeros((4, 5, 2), np.bool_)
    evidence[0, 1, 0] = marked
    evidence[1, 1:3, 1] = True
    tracks = [track for _, track, *_ in EVENTS]

    def track_rows(track: int) -> slice:
        begin = sum(each < track for each in tracks)
        return slice(begin, begin + tracks.count(track))

    classes = SimpleNamespace(
        threads=SimpleNamespace(by_evidence=evidence, driving_tracks=lambda: [1, 2]),
        rows=SimpleNamespace(track_rows=track_rows),
        code=np.array([code for *_, code in EVENTS], np.uint8),
        host_compute=given.pop("pooled", spans_of((7, 8))),
    )
    idle = {"host_compute": spans_of((0, 150), (380, 600)), "peer": spans_of((1, 2))}
    idle |= {"wait": spans_of((310, 320)), "compile": spans_of((330, 340))}
    account = SimpleNamespace(
        devices=(
            SimpleNamespace(device=3, idle={}, between=NOTHING),
            SimpleNamespace(device=device, idle=idle, between=spans_of((100, 120))),
        )
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "thread_identities", lambda _: WHERE)
        return function_runs.function(
            **{
                "trace": Tables(
                    "b",
                    events=events_at(*(event[:4] for event in EVENTS)),
                    event_types=types_named("op"),
                    tracks=types_named("unused"),
                ),
                "account": account,
                "function_frames": frames_of(
                    NAMES,
                    (WORK, framed, 0, 9, -1),
                    of_framework=frozenset(of_framework),
                ),
                "function_purposes": FunctionPurposes(np.zeros(0, np.uint8), {}),
                "host_states": SimpleNamespace(threads=(1, 2, 3), classes=classes),
                "function_lines": ABSENT,
                "windows": windows_at((0, 200), (200, 400)),
                "naming": ABSENT,
                "core_time": ABSENT,
                **given,
            }
        )


def test_every_field_of_the_functions_of_a_host() -> None:
    found = derived()
    assert (found.host, found.threads, set(found.tracks)) == ("b", (1,), {1, 3})
    assert found.inside == spans_of((0, 100), (120, 310), (320, 330), (340, 400))
    assert found.working == spans_of((0, 100), (120, 150), (380, 400))
    assert found.starts_ps.tolist() == [0, 200]
    assert found.ends_ps.tolist() == [200, 400]
    assert found.called.start_ps.tolist() == [10]
    assert found.ran.start_ps.tolist() == [10, 20]
    assert found.exchanging == spans_of((1, 2))
    assert found.collecting == spans_of((60, 65), (70, 75), (80, 85))
    assert found.pooled == spans_of((7, 8))
    assert (found.awake, found.lines) == (None, None)
    assert derived(pooled=ABSENT).pooled == NOTHING
    lines = object()
    known = SimpleNamespace(known=lambda: lines)
    assert derived(function_lines=known).lines is lines
    assert derived(device=1) is None


def test_threads_that_run_the_program_are_marked_or_drive_steps() -> None:
    assert derived(marked=False).threads == (1, 2)
    assert derived(marked=False).called.start_ps.tolist() == [10, 20]
    assert set(derived(marked=False).tracks) == {1, 2, 3}
    # If only a framework's thread has functions, all threads are used.
    assert set(derived(framed=2).tracks) == {1, 2, 3}
    assert set(derived(of_framework=()).tracks) == {1, 2, 3}


def test_the_programs_own_thread_wants_a_core() -> None:
    own, other = SimpleNamespace(awake=spans_of((3, 4))), SimpleNamespace(awake=NOTHING)
    clocks = SimpleNamespace(threads={WHERE[3]: own, WHERE[1]: other})
    naming = SimpleNamespace(function_tracks=(3, 1))
    assert derived(naming=naming, core_time=clocks).awake == spans_of((3, 4))
    assert derived(naming=naming).awake is None
    assert derived(core_time=clocks).awake is None
    nothing = SimpleNamespace(function_tracks=())
    assert derived(naming=nothing, core_time=clocks).awake is None
    unknown = SimpleNamespace(function_tracks=(2, 3))
    assert derived(naming=unknown, core_time=clocks).awake is None
