"""Functions that wait for a device are no work of the host."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces import blueprint

from stepscope.derive.account.time_by_cause import Account, account

US = 1_000_000


def waited(function: str) -> list[Any]:
    """Six steps of 5 ms: a kernel of 1 ms, a wait of 4 ms from 300 µs on, then a call.

    Nothing runs on the device for 3 ms of the wait.
    """
    lines: list[Any] = []
    for k in range(6):
        begin, stats = 5_000.0 * k, {"correlation_id": k + 1}
        lines += [
            ("main", "train", begin, 4_900, {"_r": 1, "step_num": k}),
            ("main", "cuLaunchKernel", begin + 290, 5, stats),
            ("main", function, begin + 300, 4_000),
            ("gpu:0/7(Compute)", "gemm", begin + 300, 1_000, stats),
        ]
    return lines


@pytest.mark.parametrize(
    ("function", "sync_us", "host_us"),
    [
        ("$api.py:3154 block_until_ready", 3_000, 0),
        ("$model.py:12 prepare", 0, 3_000),
    ],
)
def test_a_function_that_waits_does_no_work(
    function: str, sync_us: int, host_us: int
) -> None:
    trace = blueprint.trace(waited(function), devices={0: blueprint.A100})
    found = blueprint.profile(trace).derived("vm", account)
    assert isinstance(found, Account)
    first = found.rows.filter(window=0, device=0)
    assert first["sync_ps"][0] == pytest.approx(sync_us * US, abs=US)
    assert first["host_compute_ps"][0] == pytest.approx(host_us * US, abs=US)
