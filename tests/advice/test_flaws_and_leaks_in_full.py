"""Flaws of recordings, and growing memory: every number, worked out by hand."""

from __future__ import annotations

from itertools import combinations
from statistics import median
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.advice import conftest
from tests.advice.memories import memory, told

from stepscope.advice.registry import RULES
from stepscope.derive.facts.evidence import CauseShare, Evidence, Part
from stepscope.derive.facts.judged_steps import unexplained_outside
from stepscope.derive.facts.memory_use import PROCESS, KeptGrowth, kept_growth
from stepscope.derive.facts.recording import record_grade
from stepscope.derive.facts.step_shares import NamedTime
from stepscope.derive.verdicts.recorded_devices import DeviceSignals
from stepscope.thresholds import THRESHOLDS
from stepscope.unavailable import Unavailable
from stepscope.xspace.vocabulary import KeptCounter

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding

MS = 1_000_000_000
US = 1_000_000
MIB = 2**20
GIB = 2**30
RULE = {rule.item.id: rule for rule in RULES}


def judged(name: str, signals: Any) -> Finding:
    return RULE[name].evaluate(signals)


def facts_of(finding: Finding) -> dict[str, float | None]:
    return {fact.name: fact.value for fact in finding.facts}


# --- flaws of recordings ---


def flaws(signals: Any) -> tuple[str, str, str | None, tuple[str, ...]]:
    found = judged("capture.quality", signals)
    return found.status, found.severity, found.note, found.because


def test_every_number_of_unexplained_time(
    signals_of: Any, shares: Any, capture_of: Any
) -> None:
    """Of 10 ms 2.5 are unexplained, of which `a` has half, and 0.6 are queued."""
    names = [
        NamedTime("unexplained", "inside", "a", time_ps=15 * MS),
        NamedTime("unexplained", "inside", "b", time_ps=5 * MS),
    ]
    account = shares(
        unexplained=2.5,
        queued=0.6,
        names=names,
        fields={
            "ranges": {
                ("unexplained", "inside"): ((0, 9 * US),),
                ("queued", "inside"): ((0, 50 * US),),
            },
            "clock_error_ps": 2 * US,
            "lost_ps": 6 * MS // 10,
        },
    )
    capture = capture_of(
        dropped=7, ranks=3, hosts=2, devices=4, computing=4, without_launch_percent=2.0
    )
    extra = {unexplained_outside: {"vm:0": 12.5}, record_grade: 0.9}
    found = judged("capture.quality", signals_of(account, extra, capture=capture))
    assert (found.status, found.severity, found.note) == (
        *("fail", "critical"),
        "unexplained",
    )
    assert (found.value, found.share_percent, found.ms_per_step) == (25.0, 25.0, 2.5)
    assert (found.owners, found.place) == (("unexplained",), "any")
    assert found.threshold == THRESHOLDS.unexplained_warn
    assert (found.devices, found.confidence) == (("vm:0",), 0.9)
    assert found.causes == (
        CauseShare(cause="unexplained", share_percent=25.0),
        CauseShare(cause="queued", share_percent=6.0),
    )
    assert found.because == ("dropped", "ranks")
    assert found.parts == (
        Part(name="a", share_percent=12.5),
        Part(name="b", share_percent=pytest.approx(100 * 5 / 120)),
    )
    assert found.evidence == (
        Evidence(
            host="vm", device=0, track=None, start_ps=0, end_ps=9 * US, ops=("a",)
        ),
    )
    assert facts_of(found) == {
        "computing": 4,
        "listed": 4,
        "dropped": 7,
        "recorded": 2,
        "ranks": 3,
        "looks": None,
        "unblocked": None,
        "lost": 0.5,
        "no_launch": 2.0,
        "clock_doubt": pytest.approx(0.02),
        "clock_error": 2.0,
        "outside": 12.5,
        "on_host": None,
        "waiting": None,
    }
    # A tenth of the time outside is not most of it, nor is the largest part then.
    less = {unexplained_outside: {"vm:0": 12.4}}
    small = shares(unexplained=2.5, names=[names[1]])
    found = judged("capture.quality", signals_of(small, less, capture=capture))
    assert facts_of(found)["outside"] is None
    assert found.parts == ()


@pytest.mark.parametrize(
    ("times", "fields", "capture", "expected"),
    [
        ({}, {}, {}, ("pass", "info", None, ())),
        ({"unexplained": 1.99}, {}, {}, ("pass", "info", None, ())),
        ({"unexplained": 2.0}, {}, {}, ("fail", "critical", "unexplained", ())),
        (
            {"unexplained": 2.0},
            {},
            {"damaged": True},
            ("fail", "critical", "damaged", ()),
        ),
        # Gaps of 50 µs or more may hide work; a twentieth of the time does.
        ({"queued": 0.5}, {"gap": 50}, {}, ("fail", "warn", "queued", ())),
        ({"queued": 0.5}, {"gap": 49}, {}, ("pass", "info", None, ())),
        ({"queued": 0.5}, {}, {}, ("fail", "warn", "queued", ())),
        ({"queued": 0.49}, {"gap": 50}, {}, ("pass", "info", None, ())),
        ({"queued": 2.0}, {"gap": 50}, {}, ("fail", "critical", "queued", ())),
        (
            {"queued": 0.5},
            {"gap": 50},
            {"replays": False},
            ("fail", "warn", "waiting", ()),
        ),
        # 5 % of lost time are critical, and 1 % are a warning.
        ({}, {"lost_ps": 6 * MS}, {}, ("fail", "critical", "lost", ("lost",))),
        ({}, {"lost_ps": 6 * MS - 1}, {}, ("fail", "warn", "lost", ("lost",))),
        (
            {},
            {"lost_ps": 12 * MS // 10},
            {"dropped": 1},
            ("fail", "warn", "lost", ("lost",)),
        ),
        (
            {},
            {"lost_ps": 12 * MS // 10 - 1},
            {"dropped": 1},
            ("fail", "warn", "dropped", ("dropped",)),
        ),
        # Twelve gaps of 0.5 ms are 5 %, and of 2 ms 20 %.
        ({}, {"clock_error_ps": MS // 2}, {}, ("fail", "warn", "clocks", ("clocks",))),
        ({}, {"clock_error_ps": MS // 2 - 1}, {}, ("pass", "info", None, ())),
        (
            {},
            {"clock_error_ps": 2 * MS},
            {},
            ("fail", "critical", "clocks", ("clocks",)),
        ),
        # By wrong clocks work may seem queued.
        (
            {"queued": 3.0},
            {"clock_error_ps": 2 * MS, "gap": 50},
            {},
            ("fail", "critical", "clocks", ("clocks",)),
        ),
        (
            {"queued": 3.0},
            {"clock_error_ps": MS, "gap": 50},
            {},
            ("fail", "critical", "queued", ("clocks",)),
        ),
        (
            {},
            {},
            {"without_launch_percent": 5.0},
            ("fail", "info", "no_launch", ("no_launch",)),
        ),
        ({}, {}, {"without_launch_percent": 4.9}, ("pass", "info", None, ())),
        ({}, {}, {"without_launch_percent": None}, ("pass", "info", None, ())),
        ({}, {}, {"ranks": 2, "hosts": 1}, ("fail", "info", "ranks", ("ranks",))),
        ({}, {}, {"ranks": 2, "hosts": 2}, ("pass", "info", None, ())),
        # Of five devices two compute, although another copies.
        (
            {},
            {},
            {"copying": 1, "computing": 2, "devices": 5},
            ("fail", "critical", "devices", ("devices",)),
        ),
        (
            {},
            {},
            {"copying": 1, "computing": 2, "devices": 4},
            ("pass", "info", None, ()),
        ),
        (
            {},
            {},
            {"copying": 0, "computing": 2, "devices": 5},
            ("pass", "info", None, ()),
        ),
        # The gravest first, then what makes all times useless, then the largest.
        (
            {"unexplained": 3.0, "queued": 2.5},
            {"gap": 50},
            {"copying": 1, "computing": 1, "devices": 9},
            ("fail", "critical", "devices", ("devices",)),
        ),
        (
            {"unexplained": 2.5, "queued": 3.0},
            {"gap": 50},
            {},
            ("fail", "critical", "queued", ()),
        ),
    ],
)
def test_levels_of_flaws(
    signals_of: Any,
    shares: Any,
    capture_of: Any,
    times: dict[str, float],
    fields: dict[str, Any],
    *,
    capture: dict[str, Any],
    expected: Any,
) -> None:
    fields = dict(fields)
    gap = fields.pop("gap", None)
    if gap is not None:
        fields["ranges"] = {("queued", "inside"): ((0, 5 * US), (10, 10 + gap * US))}
    account = shares(**times, fields=fields)
    given = {"without_launch_percent": 0.0, **capture}
    assert flaws(signals_of(account, capture=capture_of(**given))) == expected


@pytest.mark.parametrize(
    ("start_ms", "source", "missing"),
    [(0.49, None, True), (0.5, None, False), (0.0, "marker", False)],
)
def test_a_recording_that_begins_with_queued_work_lacks_its_launches(
    signals_of: Any,
    shares: Any,
    capture_of: Any,
    start_ms: float,
    source: str | None,
    *,
    missing: bool,
) -> None:
    """Of a recording of 10 ms the first 5 % are its beginning."""
    start = 7 * MS + round(start_ms * MS)
    account = shares(
        steps=1,
        queued=1.0,
        fields={
            "step_source": source,
            "bounds": ((7 * MS, 17 * MS),),
            "ranges": {("queued", "inside"): ((start, start + MS),)},
        },
    )
    found = judged(
        "capture.quality", signals_of(account, capture=capture_of(replays=False))
    )
    assert found.note == ("queued" if missing else "waiting")
    assert (found.ms_per_step is None) is (source is None)


@pytest.mark.parametrize(
    ("device", "word"),
    [
        (DeviceSignals(recorded="silent"), "silent"),
        (DeviceSignals(recorded="silent", in_doubt=True), "in_doubt"),
        (
            DeviceSignals(
                recorded="silent",
                reason=Unavailable(code="UNKNOWN_DEVICE", reason=".", remedy="."),
            ),
            "unread",
        ),
    ],
)
def test_a_silent_device_is_a_flaw(
    signals_of: Any, shares: Any, device: DeviceSignals, word: str
) -> None:
    found = flaws(signals_of(shares(device=None), device=device))
    assert found == ("fail", "critical", word, (word,))


@pytest.mark.parametrize(
    ("device", "owner", "status"),
    [
        (0, "launch", "cannot_tell"),
        (0, "queued", "cannot_tell"),
        (0, "profiler", "cannot_tell"),
        (0, "host_compute", "pass"),
        (None, "host_compute", "cannot_tell"),
        (None, "profiler", "cannot_tell"),
        (None, "queued", "pass"),
    ],
)
def test_flaws_are_unknown_where_causes_were_not_measured(
    signals_of: Any, shares: Any, device: int | None, owner: str, status: str
) -> None:
    account = shares(device=device, missing=(owner,))
    assert judged("capture.quality", signals_of(account)).status == status
    # A flaw that is there needs no other cause.
    flawed = shares(device=device, missing=(owner,), unexplained=3.0)
    assert judged("capture.quality", signals_of(flawed)).status == "fail"


# --- growing memory ---

USES = st.lists(st.integers(0, 99), min_size=9, max_size=13)
STEPS = st.lists(st.integers(0, 2), min_size=13, max_size=13)


@settings(max_examples=40, deadline=None)
@given(USES, STEPS)
def test_growth_is_the_median_of_the_slopes_of_all_pairs(
    uses: list[int], gaps: list[int]
) -> None:
    """Samples of a process may share their step, and then have no slope."""
    steps = [float(sum(gaps[: at + 1])) for at in range(len(uses))]
    if steps[-1] - steps[0] < THRESHOLDS.leak_steps.value - 1:
        return
    one = memory(
        least_bytes=tuple(use * GIB for use in uses),
        at_step=tuple(steps),
        capacity_bytes=200 * GIB,
    )
    found = judged("mem.leak", conftest.signals_of(told(one)))

    def slopes(points: list[tuple[float, int]]) -> list[float]:
        return sorted(
            (later - use) / (end - step)
            for (step, use), (end, later) in combinations(points, 2)
            if end > step
        )

    points = list(zip(steps, uses, strict=True))
    every = slopes(points)
    slope, count = median(every), len(points)
    spread = 1.96 * (count * (count - 1) * (2 * count + 5) / 18) ** 0.5
    low = every[max(int((len(every) - spread) / 2), 0)]
    halves = [slopes(half) for half in (points[: count // 2], points[count // 2 :])]
    least = min(median(half) if half else 0.0 for half in halves)
    leaks = low > 0 and slope >= 0.2 and least >= slope / 2
    assert found.status == ("fail" if leaks else "pass")
    assert found.value == pytest.approx(slope / 2)
    facts = facts_of(found)
    assert facts["growth_mib"] == pytest.approx(slope * 1024, abs=0.06)
    assert facts["steps"] == count
    left = (200 - uses[-1]) / slope if leaks else None
    assert facts["steps_left"] == (None if left is None else pytest.approx(left))
    soon = left is not None and left < THRESHOLDS.leak_soon.value
    severity = "info" if not leaks else "critical" if soon else "warn"
    assert found.severity == severity


def kept(**fields: Any) -> KeptGrowth:
    return KeptGrowth(
        **{
            "host": "vm",
            "counted": KeptCounter("items", "losses", "train.py", 7, "train"),
            "steps": 10,
            "items": 8.0,
            "array_bytes": 30.0 * MIB,
            "graph_bytes": 10.0 * MIB,
            **fields,
        }
    )


def growing(
    signals_of: Any, *grown: KeptGrowth, capacity: int | None = 40 * GIB
) -> Any:
    process = memory(name=PROCESS, capacity_bytes=capacity)
    other = memory(name="GPU_0_bfc", capacity_bytes=1)
    extra = {kept_growth: grown, record_grade: 0.9}
    return signals_of(told(process, other), extra)


def test_every_number_of_a_container_that_keeps_arrays(signals_of: Any) -> None:
    """4 MiB a step fill 40 GiB after 10240 steps; another container keeps a third."""
    smaller = kept(
        array_bytes=0.0,
        graph_bytes=20.0 * MIB,
        counted=KeptCounter("items", "outputs", "train.py", 9, "other"),
    )
    found = judged("mem.leak", growing(signals_of, smaller, kept()))
    assert (found.status, found.severity, found.confidence) == ("fail", "warn", 0.9)
    assert (found.value, found.unit) == (10_240.0, "count")
    assert found.threshold == THRESHOLDS.kept_full
    assert found.devices == ("vm:process",)
    assert found.parts == (
        Part(
            name="losses",
            function="train",
            file="train.py",
            line=7,
            share_percent=pytest.approx(200 / 3),
        ),
    )
    assert facts_of(found) == {"kept_arrays": 4.0, "kept_left": 10_240.0, "steps": 10}
    graphs = judged("mem.leak", growing(signals_of, smaller))
    assert facts_of(graphs)["kept_graphs"] == 2.0


@pytest.mark.parametrize(
    ("fields", "capacity", "found"),
    [
        ({}, 40 * GIB, True),
        ({"steps": 5, "items": 4.0}, 40 * GIB, True),
        ({"steps": 4, "items": 4.0}, 40 * GIB, False),
        # Eight of ten steps add something.
        ({"items": 7.9}, 40 * GIB, False),
        ({"host": "other"}, 40 * GIB, False),
        ({}, None, False),
        ({"array_bytes": 0.0, "graph_bytes": 0.0}, 40 * GIB, False),
        # What fills a memory after more than 100 000 steps does not matter.
        ({"array_bytes": 7.0 * GIB, "graph_bytes": GIB}, 80_000 * GIB, True),
        ({"array_bytes": 7.0 * GIB, "graph_bytes": GIB}, 80_001 * GIB, False),
    ],
)
def test_which_containers_matter(
    signals_of: Any, fields: dict[str, Any], capacity: int | None, *, found: bool
) -> None:
    signals = growing(signals_of, kept(**fields), capacity=capacity)
    assert (judged("mem.leak", signals).status == "fail") is found
