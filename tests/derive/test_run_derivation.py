"""What is derived from all hosts of a run: gathered by host or device, and kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.traces import blueprint

from stepscope.advice.engine import DERIVATIONS
from stepscope.advice.registry import RULES
from stepscope.derive import profile_data
from stepscope.derive.derivations import FACTS, host_derivation, run_derivation
from stepscope.derive.run_derivation import (
    OfHosts,
    first_reason,
    known_hosts,
    of_each_device,
    of_each_device_or_why,
    of_each_host,
    of_each_host_or_why,
    of_run,
)
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from typing import Any

    import polars as pl

    from stepscope.derive.profile_data import ProfileData
    from stepscope.derive.run_derivation import RunDerivation
    from stepscope.trace.model import TraceData

WHY = Unavailable(code="NOT_RECORDED", reason="Not here.", remedy="Record.")


def run_of(*events: int) -> ProfileData:
    """A run whose hosts recorded so many events each; none of -1."""
    lines: list[list[blueprint.Line]] = [
        [("main", f"op{at}", 2 * at, 1) for at in range(max(count, 1))]
        for count in events
    ]
    traces = [blueprint.trace(it, host=f"vm{at}") for at, it in enumerate(lines)]
    absent = (count < 0 for count in events)
    return blueprint.profile(
        *(
            blueprint.substitute(trace, events=WHY) if is_absent else trace
            for trace, is_absent in zip(traces, absent, strict=True)
        )
    )


@of_each_host
def counted(*, events: pl.DataFrame) -> int | None:
    return len(events) if len(events) > 1 else None


@of_each_host_or_why
def counted_or_why(*, events: pl.DataFrame) -> int:
    return len(events)


@of_each_device
def by_device(*, events: pl.DataFrame) -> dict[int | None, int]:
    return {None: len(events)} if len(events) == 2 else {0: len(events), 3: 1}


@of_each_device_or_why
def by_device_or_why(*, events: pl.DataFrame) -> dict[int | None, int]:
    return {1: len(events)}


def test_hosts_that_have_no_value_are_left_out() -> None:
    assert run_of(2, -1, 1, 3).of_run(counted) == {"vm0": 2, "vm3": 3}
    assert run_of(-1).of_run(counted) == {}


def test_without_a_value_of_any_host_the_first_reason_says_why() -> None:
    assert run_of(-1, 2).of_run(counted_or_why) == {"vm1": 2}
    assert run_of(-1, -1).of_run(counted_or_why) == WHY
    assert run_of().of_run(counted_or_why) == {}
    assert run_of(-1).of_run(by_device_or_why) == WHY
    assert run_of(4).of_run(by_device_or_why) == {"vm0:1": 4}


def test_devices_are_named_with_their_host_and_a_host_without_by_itself() -> None:
    assert run_of(3, 2).of_run(by_device) == {"vm0:0": 3, "vm0:3": 1, "vm1": 2}


def test_a_value_of_the_run_is_given_those_of_all_hosts() -> None:
    given = []

    @of_run
    def whole(
        *,
        events: OfHosts[pl.DataFrame],
        trace: OfHosts[TraceData],
        profile: ProfileData,
    ) -> int:
        given.append((list(events), list(trace), profile, first_reason(events)))
        return sum(map(len, known_hosts(events).values()))

    run = run_of(2, -1, 3)
    assert [run.of_run(whole), run.of_run(whole)] == [5, 5]
    every = ["vm0", "vm1", "vm2"]
    assert given == [(every, every, run, WHY)]
    # A selection of hosts has values of its own.
    assert run.select(["vm2"]).of_run(whole) == 3


def test_an_absent_value_of_the_run_is_that_of_what_reads_it() -> None:
    run = run_of(-1)
    absent = run.of_run(facts("account_signals"))
    assert isinstance(absent, Unavailable)
    assert run.of_run(facts("kernel_work")) == absent
    assert run.of_run(facts("measured_work")) == absent


def facts(name: str) -> RunDerivation[Any]:
    found = run_derivation(name)
    assert found is not None
    return found


def test_every_fact_asks_for_what_there_is() -> None:
    known = {*FACTS, *profile_data.DERIVATIONS, *profile_data.TABLES}
    for name in FACTS:
        inputs = host_derivation(name).inputs
        assert inputs.keys() <= known | {"trace", "strings", "profile"}, name
        if run_derivation(name) is None:
            # What one host has follows from nothing of the whole run.
            of_run = [it for it in inputs if it in FACTS and run_derivation(it)]
            assert (of_run, "profile" in inputs) == ([], False), name


@pytest.mark.slow(seconds=0.6)
def test_what_rules_read_is_ready_after_it_was_prepared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(profile_data, "worth_threads", lambda _events: 2)
    run, other = run_of(4, 3), run_of(4, 3)
    run.prepare(DERIVATIONS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(profile_data.ProfileData, "_compute_value", _nothing_more)
        prepared = [run.of_run(it) for it in DERIVATIONS]
    assert len(prepared) == len(DERIVATIONS)
    read = {it for rule in RULES for it in rule.reads}
    assert set(DERIVATIONS) & read
    for one in DERIVATIONS:
        assert isinstance(run.of_run(one), Unavailable) == isinstance(
            other.of_run(one), Unavailable
        ), one.name


def _nothing_more(*_: object) -> None:
    pytest.fail("was not prepared")
