"""Whether steps wait for their input, over literal times of devices and hosts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import polars as pl
import pytest
from msgspec.structs import asdict
from tests.support.traces.literal import spans_of

from stepscope.derive.account.time_by_cause import account
from stepscope.derive.account.topics import idle_topics
from stepscope.derive.device.correlation import launch_facts
from stepscope.derive.step_time.host_classes import host_classes
from stepscope.derive.step_windows.windows import windows
from stepscope.derive.steps.chosen import steps
from stepscope.derive.verdicts.effect_status import EffectStatus, StepSeries
from stepscope.derive.verdicts.input_verdict import (
    HIGHLY,
    MODERATELY,
    NOT,
    UNKNOWN,
    InputTime,
    InputVerdict,
    decide_input,
    input_verdict,
    records_fetches,
    verdict_of_run,
    with_starved_time,
)
from stepscope.derive.verdicts.recorded_devices import DeviceSignals, device_signals
from stepscope.unavailable import Unavailable

MS = 1_000_000_000
ABSENT = Unavailable(code="ABSENT", reason="Absent.", remedy="Record it.")
RECORDED = DeviceSignals(recorded="recorded")
SILENT = DeviceSignals(recorded="silent")


def time_of(device: int | None = 0, *, steps: int = 12, **fields: Any) -> InputTime:
    """Steps of 10 ms with so many ms of each cause in each of them."""
    causes = ("fetch", "transfer", "starved", "between", "unexplained")
    ms = {cause: fields.pop(cause, 0.0) for cause in causes}
    usual = {
        "host": "vm",
        "device": device,
        "step_source": "marker",
        "step_confidence": 0.9,
        "closed": True,
        "window_ps": (10 * MS,) * steps,
        "parts_ps": {name: (round(one * MS),) * steps for name, one in ms.items()},
        "is_blind": False,
        "lost_ps": 0,
        "working_ps": 5 * MS * steps,
    }
    return InputTime(**{**usual, **fields})


def decided(*times: InputTime, **given: Any) -> InputVerdict:
    usual = {"fetched": True, "device": RECORDED, "blind": None}
    return decide_input(times, **{**usual, **given})


@pytest.mark.parametrize(
    ("fields", "fetched", "unknown_ms"),
    [
        # Of 120 ms a fifth is 24: less of unexplained time may not be input.
        ({"unexplained": 1.99}, True, 0.0),
        ({"unexplained": 2.0}, True, 24.0),
        ({"unexplained": 1.0, "is_blind": True}, True, 12.0),
        # Without fetches, time between steps may be, but for what is known to be.
        ({"unexplained": 1.0, "between": 2.0, "starved": 0.5}, False, 30.0),
        ({"unexplained": 1.0, "between": 2.0, "starved": 0.5}, True, 0.0),
    ],
)
def test_time_that_may_be_input(
    fields: dict[str, Any], *, fetched: bool, unknown_ms: float
) -> None:
    time = time_of(lost_ps=7, closed=False, **fields)
    series = time.series(fetched=fetched)
    assert asdict(series) == {
        "step_source": "marker",
        "step_confidence": 0.9,
        "closed": False,
        "window_ps": (10 * MS,) * 12,
        "parts_ps": {
            cause: time.parts_ps[cause] for cause in ("fetch", "transfer", "starved")
        },
        "unknown_ps": round(unknown_ms * MS),
        "doubt_ps": 0,
        "excess_ps": 7,
        "idle_ps": 0,
    }


def test_shares_are_of_the_judged_windows() -> None:
    time = time_of(fetch=1.0, transfer=0.5, starved=0.25, between=3.0, unexplained=1.0)
    assert time.total_ps == 120 * MS
    assert time.percent == pytest.approx(17.5)
    assert time_of(steps=0).percent == 0.0


@pytest.mark.parametrize(
    ("fetch", "word", "bound"),
    [(0.49, NOT, False), (0.5, MODERATELY, True), (1.99, MODERATELY, True)],
)
def test_a_twentieth_is_moderately_bound(
    fetch: float, word: str, *, bound: bool
) -> None:
    found = decided(time_of(fetch=fetch))
    assert (found.word, found.input_bound, found.why) == (word, bound, None)
    assert found.share_percent == pytest.approx(10 * fetch)
    assert (found.leading, found.label, found.unknown_ps) == ("fetch", "vm:0", 0)


def test_a_fifth_is_highly_bound_and_its_leading_cause_is_named() -> None:
    found = decided(time_of(None, fetch=0.5, transfer=1.0, starved=0.5))
    assert (found.word, found.input_bound) == (HIGHLY, True)
    assert (found.label, found.leading) == ("vm", "transfer")
    parts = [found.part_percent(cause) for cause in ("fetch", "transfer", "starved")]
    assert parts == pytest.approx([5.0, 10.0, 5.0])
    assert found.part_percent("between") == 0.0
    nothing = decided(time_of())
    assert (nothing.word, nothing.leading, nothing.share_percent) == (NOT, None, 0.0)


def test_the_busiest_device_is_judged_and_unknown_time_is_of_all() -> None:
    less = time_of(0, fetch=5.0, unexplained=2.0, working_ps=40 * MS)
    more = time_of(1, fetch=0.1, unexplained=3.0, working_ps=41 * MS, host="b")
    host = time_of(None, fetch=9.0, working_ps=90 * MS)
    for order in ((less, more, host), (host, more, less)):
        found = decided(*order)
        assert (found.host, found.device) == ("b", 1)
        assert found.share_percent == pytest.approx(1.0)
        assert found.unknown_ps == 60 * MS
        # 1 % and up to 30 % of unknown time: nobody knows.
        assert (found.word, found.input_bound, found.why) == (UNKNOWN, None, None)


def test_of_hosts_without_devices_the_one_with_most_input_is_judged() -> None:
    times = [time_of(None, host=name, fetch=ms) for name, ms in (("a", 1), ("b", 2))]
    assert decided(*times).host == "b"
    assert decided(*reversed(times)).host == "b"


def test_without_times_there_are_no_steps_to_judge() -> None:
    found = decided()
    assert (found.host, found.device, found.unknown_ps) == ("", None, 0)
    assert found.series == StepSeries(
        step_source=None, step_confidence=0.0, window_ps=(), parts_ps={}
    )
    assert found.status == EffectStatus("cannot_tell")
    unsure = decided(time_of(step_confidence=0.59))
    assert found.why is not None
    assert found.why == unsure.why


@pytest.mark.parametrize(
    ("fields", "given", "why"),
    [
        ({"step_confidence": 0.6}, {}, None),
        ({"step_confidence": 0.59}, {}, "steps"),
        ({"step_confidence": 0.59}, {"blind": ABSENT}, "steps"),
        ({}, {"blind": ABSENT}, "ABSENT"),
        ({}, {"blind": ABSENT, "device": SILENT}, "ABSENT"),
        ({}, {"device": SILENT}, "NO_DEVICE_EVENTS"),
        (
            {},
            {"device": DeviceSignals(recorded="silent", reason=ABSENT)},
            "ABSENT",
        ),
        ({"fetch": 0.4}, {"device": SILENT}, None),
        ({}, {"device": DeviceSignals(recorded="host_only")}, None),
    ],
)
def test_why_no_amount_of_input_gives_a_verdict(
    fields: Any, given: Any, why: str | None
) -> None:
    found = decided(time_of(None, **{"fetch": 1.0, **fields}), **given)
    if why is None:
        assert found.why is None
        assert found.word == (NOT if "fetch" in fields else MODERATELY)
        return
    assert found.why is not None
    assert (found.status, found.word) == (EffectStatus("cannot_tell"), UNKNOWN)
    if why != "steps":
        assert found.why.code == why
    else:
        assert found.why.code not in ("ABSENT", "NO_DEVICE_EVENTS")
    if given.get("device") is not None and "blind" not in given:
        assert "10 %" in found.why.reason
        assert (found.why.remedy == ABSENT.remedy) is (why == "ABSENT")


def test_without_steps_recorded_fetches_make_the_recording_one_window() -> None:
    """58.8 % of a recording waited for batches, and no check explained it."""
    whole = {"step_source": None, "step_confidence": 0.0, "steps": 1}
    found = decided(time_of(fetch=5.88, **whole))
    assert (found.word, found.why) == (MODERATELY, None)
    assert found.share_percent == pytest.approx(58.8)
    # A copy, or a silence before it, may be that of weights.
    unseen = decided(time_of(transfer=5.88, **whole), fetched=False)
    assert unseen.word == UNKNOWN
    assert unseen.why is not None


def test_lost_records_put_a_finding_in_doubt() -> None:
    """6 of 120 ms are a twentieth, and not without 1 ps that may be lost."""
    assert decided(time_of(fetch=0.5)).word == MODERATELY
    assert decided(time_of(fetch=0.5, lost_ps=1)).word == UNKNOWN


@pytest.mark.parametrize(
    ("waits", "iterators", "recorded"),
    [
        ((), ABSENT, False),
        ((1,), ABSENT, True),
        (None, ABSENT, False),
        (None, pl.DataFrame({"long_name": ["Batch"]}), True),
        ((), pl.DataFrame({"long_name": ["Batch"]}), True),
        ((), pl.DataFrame({"long_name": []}), False),
        ((1,), pl.DataFrame({"long_name": []}), True),
    ],
)
def test_waits_for_input_or_stages_of_a_pipeline_are_fetches(
    waits: Any, iterators: Any, *, recorded: bool
) -> None:
    tables = {"iterators": iterators, "tracks": ABSENT}
    trace: Any = SimpleNamespace(table=tables.__getitem__)
    classes: Any = ABSENT if waits is None else SimpleNamespace(input_wait=waits)
    assert records_fetches(trace, classes) is recorded


@pytest.mark.parametrize(
    ("name", "events", "recorded"),
    [
        ("tf_data_iterator/1", 3, None),
        ("tf_data_iterator/1", 0, False),
        ("x", 3, False),
    ],
)
def test_threads_of_a_pipeline_without_its_fetches_leave_them_unknown(
    name: str, events: int, *, recorded: bool | None
) -> None:
    track = pl.DataFrame({"name": [name], "event_begin": [0], "event_end": [events]})
    tables = {"iterators": ABSENT, "tracks": track}
    trace: Any = SimpleNamespace(table=tables.__getitem__)
    classes: Any = SimpleNamespace(input_wait=())
    assert records_fetches(trace, classes) is recorded


def test_a_pipeline_whose_fetches_are_unknown_never_passes() -> None:
    """Ops of tf.data ran beside 44.7 % of computing, and waiting for them passed."""
    assert decided(time_of(fetch=0.1), fetched=False).word == NOT
    unseen = decided(time_of(fetch=0.1), fetched=None)
    assert (unseen.word, unseen.why and unseen.why.code) == (
        UNKNOWN,
        "NO_TFDATA_EVENTS",
    )
    assert decided(time_of(transfer=1.0), fetched=None).word == MODERATELY


# --- over the derivations of hosts ---


def rows_of(device: int | None, *windows: int, **columns: Any) -> pl.DataFrame:
    """The judged rows of an account: 10 ms per window, 1 of which fetches."""
    count = len(windows)
    zero = ("copy_in_ps", "starved_ps", "between_ps", "unexplained_ps", "collective_ps")
    usual = {
        "window": list(windows),
        "device": [device] * count,
        "window_ps": [10 * MS] * count,
        "input_ps": [MS] * count,
        **{name: [0] * count for name in zero},
        "device_working_ps": [5 * MS] * count,
    }
    data = usual | {name: [value] * count for name, value in columns.items()}
    return pl.DataFrame(data, schema=dict.fromkeys(data, pl.Int64))


class Hosts:
    """A profile of hosts whose derivations are given."""

    def __init__(self, **hosts: dict[Any, Any]) -> None:
        self.hosts = tuple(hosts)
        self.of_hosts = hosts

    def derived(self, host: str, derivation: Any) -> Any:
        return self.of_hosts[host].get(derivation, ABSENT)

    def trace(self, host: str) -> Any:
        table = self.of_hosts[host].get("iterators", ABSENT)
        tables = {"iterators": table, "tracks": ABSENT}
        return SimpleNamespace(table=tables.__getitem__)

    def of_run(self, derivation: Any) -> Any:
        return {device_signals: RECORDED}[derivation]


def host_of(**fields: Any) -> dict[Any, Any]:
    """Six windows, the last with an open end."""
    placed = pl.DataFrame(
        {
            "open_end": [False] * 5 + [True],
            "start_ps": [10 * MS * at for at in range(6)],
            "end_ps": [10 * MS * (at + 1) for at in range(6)],
        }
    )
    found = SimpleNamespace(rows=placed, rows_of_measured=lambda rows: rows)
    return {
        steps: SimpleNamespace(source="marker", confidence=0.9),
        windows: found,
        launch_facts: SimpleNamespace(lost_ps=5),
        host_classes: SimpleNamespace(input_wait=(1,)),
        **fields.pop("more", {}),
    }


@pytest.mark.parametrize(
    ("device", "window", "closed", "lost_ps"),
    [(0, 4, True, 5), (0, 5, False, 5), (None, 4, True, 0)],
)
def test_every_number_of_a_host(
    device: int | None, window: int, lost_ps: int, *, closed: bool
) -> None:
    profile: Any = Hosts(a=host_of())
    given = {"copy_in_ps": 2 * MS, "starved_ps": 3 * MS, "unexplained_ps": None}
    rows = rows_of(device, window, between_ps=4 * MS, **given)
    found = input_verdict(profile, {"a": rows})
    assert (found.host, found.device, found.why) == ("a", device, None)
    assert asdict(found.series) == {
        "step_source": "marker",
        "step_confidence": 0.9,
        "closed": closed,
        "window_ps": (10 * MS,),
        "parts_ps": {"fetch": (MS,), "transfer": (2 * MS,), "starved": (3 * MS,)},
        "unknown_ps": 0,
        "doubt_ps": 0,
        "excess_ps": lost_ps,
        "idle_ps": 0,
    }
    # A window that ends where the next one begins is enough.
    both = pl.concat([rows, rows_of(device, 4)])
    assert input_verdict(profile, {"a": both}).series.closed


@pytest.mark.parametrize(
    ("device", "column", "unknown_ms"),
    [
        (0, "copy_in_ps", 1),
        (0, "input_ps", 1),
        (None, "input_ps", 1),
        (None, "copy_in_ps", 0),
        (0, "starved_ps", 0),
    ],
)
def test_a_host_without_fetches_or_copies_is_blind(
    device: int | None, column: str, unknown_ms: int
) -> None:
    profile: Any = Hosts(a=host_of())
    rows = rows_of(device, 0, **{"unexplained_ps": MS, column: None})
    found = input_verdict(profile, {"a": rows})
    assert found.unknown_ps == unknown_ms * MS
    causes = {"input_ps": "fetch", "copy_in_ps": "transfer", "starved_ps": "starved"}
    assert found.series.parts_ps[causes[column]] == (0,)


def test_without_steps_and_launches_nothing_is_known_of_them() -> None:
    absent = {steps: ABSENT, launch_facts: ABSENT}
    profile: Any = Hosts(a=host_of(more=absent))
    found = input_verdict(profile, {"a": rows_of(0, 0)})
    series = found.series
    assert (series.step_source, series.step_confidence) == (None, 0.0)
    # Recorded fetches show that the recording waits for input.
    assert (series.excess_ps, found.word) == (0, MODERATELY)


def test_one_host_with_fetches_or_threads_is_enough() -> None:
    """Without fetches the time between steps may be input."""
    blind = host_of(more={host_classes: ABSENT})
    without = host_of(more={host_classes: SimpleNamespace(input_wait=())})
    rows = {
        "a": rows_of(0, 0, between_ps=MS, device_working_ps=6 * MS),
        "b": rows_of(1, 0, between_ps=MS),
    }
    for hosts, unknown_ms, why in (
        ((host_of(), without), 0, None),
        ((without, host_of()), 0, None),
        ((without, without), 2, None),
        ((blind, without), 2, None),
        ((blind, host_of()), 0, None),
        ((blind, blind), 2, ABSENT),
    ):
        profile: Any = Hosts(**dict(zip("ab", hosts, strict=True)))
        found = input_verdict(profile, rows)
        assert (found.host, found.unknown_ps) == ("a", unknown_ms * MS)
        assert found.why == why


def test_working_time_has_no_collectives() -> None:
    profile: Any = Hosts(a=host_of(), b=host_of())
    rows = {
        "a": rows_of(0, 0, device_working_ps=8 * MS, collective_ps=4 * MS),
        "b": rows_of(1, 0),
    }
    assert input_verdict(profile, rows).host == "b"


def test_hosts_without_an_account_are_left_out() -> None:
    with_account = host_of(more={account: SimpleNamespace(rows=rows_of(0, 0, 1))})
    profile: Any = Hosts(a=host_of(), b=with_account, c=host_of())
    found = verdict_of_run(profile)
    assert isinstance(found, InputVerdict)
    assert found.host == "b"
    assert found.share_percent == pytest.approx(10.0)
    assert verdict_of_run(cast("Any", Hosts(a=host_of()))) == ABSENT


def test_a_device_starves_while_nothing_else_feeds_it() -> None:
    """Device 1 is unfed from 5 to 12 ms and from 25 to 40; device 0 all the time."""
    spans = {
        0: spans_of((0, 60 * MS)),
        1: spans_of((5 * MS, 12 * MS), (25 * MS, 40 * MS)),
    }
    topics = SimpleNamespace(
        devices=[
            SimpleNamespace(device=device, spans={"unfed": unfed})
            for device, unfed in spans.items()
        ]
    )
    rows = pl.concat([rows_of(1, 3, 0, 1), rows_of(None, 0)])
    profile: Any = Hosts(a=host_of(more={idle_topics: topics}), b=host_of())
    starved = with_starved_time(profile, "a", rows)["starved_ps"]
    assert starved.to_list() == [10 * MS, 5 * MS, 2 * MS, 0]
    assert with_starved_time(profile, "b", rows)["starved_ps"].to_list() == [0] * 4
