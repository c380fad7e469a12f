"""Workers that are threads of one process: who waits in an exchange, and for what."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from tests.support.traces import blueprint

from stepscope.derive.account.parts import AccountParts, account_parts
from stepscope.derive.account.time_by_cause import Account, account
from stepscope.derive.step_time.owners import OWNERS

MS = 1_000_000_000
CALL = "CommonPjRtLoadedExecutable::Execute (jit_update)"
EXCHANGE = "all-reduce.3"


def owned_ms(lines: list[Any]) -> tuple[dict[str, float], dict[str, float]]:
    """Owners of the only window, and names of the host's work, in ms."""
    trace = blueprint.trace(lines)
    profile = blueprint.profile(trace)
    found = profile.derived(trace.host, account)
    named = profile.derived(trace.host, account_parts)
    assert isinstance(found, Account), found
    assert isinstance(named, AccountParts), named
    found.self_check()
    (row,) = found.rows.iter_rows(named=True)
    owners = {
        owner.name: row[f"{owner.name}_ps"] / MS
        for owner in OWNERS
        if row.get(f"{owner.name}_ps")
    }
    mine = named.rows.filter(pl.col("owner") == "host_compute")
    return owners, {
        name: time / MS for name, time in mine.select("name", "time_ps").rows()
    }


def step(second: list[Any]) -> list[Any]:
    """Ten ms: one device computes for 2 and waits in an exchange until 9.

    The program's thread hands the work over, and waits all the time. `second` is what
    the thread of the other device does.
    """
    return [
        ("main", "train", 0, 10_000, {"_r": 1, "step_num": 0}),
        ("main", CALL, 0, 10_000),
        ("main", "Wait for LaunchOnDevice completion", 0, 10_000),
        ("tf_XLA/1", "dot.1", 0, 2_000, {"hlo_op": "dot.1"}),
        ("tf_XLA/1", EXCHANGE, 2_000, 7_000, {"hlo_op": EXCHANGE}),
        ("tf_XLA/1", "tanh.1", 9_000, 1_000, {"hlo_op": "tanh.1"}),
        *second,
    ]


@pytest.mark.parametrize(("work", "waits"), [(6_000, 1.0), (1_000, 6.0), (0, 7.0)])
def test_what_the_other_devices_of_a_process_compute_is_no_wait(
    work: int, waits: float
) -> None:
    """The other one begins at 2 ms, works, and comes to the exchange.

    While it worked the step was said to wait for an exchange with other workers.
    """
    tanh = ("tf_XLA/2", "tanh.1", 2_000, work, {"hlo_op": "tanh.1"})
    meets = ("tf_XLA/2", EXCHANGE, 2_000 + work, 7_000 - work, {"hlo_op": EXCHANGE})
    owners, names = owned_ms(step([meets, *([tanh] if work else [])]))
    assert owners == pytest.approx({"peer": waits, "host_compute": 10.0 - waits})
    # The call that hands the work over does none of it.
    assert names == pytest.approx(
        {"dot.1": 2.0, "tanh.1": 1.0 + work / 1_000}, abs=0.001
    )


def test_where_only_the_meeting_of_the_devices_was_recorded_the_wait_has_its_name() -> (
    None
):
    """XLA before 2024 runs a program as a whole, and records no instructions."""
    meeting = ("tf_XLA/1", "Rendezvous", 2_000, 7_000, {"num_threads": 2})
    lines = [line for line in step([meeting]) if line[1] != EXCHANGE]
    owners, _ = owned_ms(lines)
    assert owners == pytest.approx({"peer": 7.0, "host_compute": 3.0})


def test_a_wait_for_a_pool_within_a_process_is_the_wait_itself() -> None:
    """What an executor hands on and waits for computes nothing."""
    waits = ("tf_XLA/2", "ThunkExecutor::Execute (wait for completion)", 2_000, 8_000)
    owners, _ = owned_ms(step([waits]))
    assert owners == pytest.approx({"peer": 7.0, "host_compute": 3.0})
