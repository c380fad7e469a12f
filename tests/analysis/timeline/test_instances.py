"""The longest execution of an op or a kernel, worked out by hand."""

from __future__ import annotations

import pytest
from tests.support.traces import blueprint

from stepscope.analysis.timeline.instances import (
    Instance,
    longest_of_kernel,
    longest_of_op,
)

US = 1_000_000
STREAM = "gpu:0/7(Compute)"
#: Of `long` the second is the longest, and of two equal ones the first counts.
HERE: list[blueprint.Line] = [
    ("main", "outer", 0, 300),
    (STREAM, "short", 100, 10),
    (STREAM, "long", 110, 40),
    (STREAM, "long", 200, 60),
    (STREAM, "long", 300, 60),
]
THERE: list[blueprint.Line] = [(STREAM, "short", 20, 11), (STREAM, "long", 40, 5)]


def place(found: Instance | None) -> tuple[str, str, int, int] | None:
    if found is None:
        return None
    where = found.place
    return found.host, where.name, where.start_ps // US, where.dur_ps // US


@pytest.mark.parametrize(
    ("hosts", "kernel", "longest"),
    [
        (("vm", "b"), "long", ("vm", "long", 200, 60)),
        (("vm", "b"), "short", ("b", "short", 20, 11)),
        (("vm",), "short", ("vm", "short", 100, 10)),
        (("b",), "long", ("b", "long", 40, 5)),
        # What runs on a thread is no kernel.
        (("vm", "b"), "outer", None),
        (("vm", "b"), "lon", None),
        ((), "long", None),
    ],
)
def test_the_longest_of_a_kernel(
    hosts: tuple[str, ...],
    kernel: str,
    longest: tuple[str, str, int, int] | None,
) -> None:
    profile = blueprint.profile(blueprint.trace(HERE), blueprint.trace(THERE, host="b"))
    assert place(longest_of_kernel(profile, hosts, kernel)) == longest


def test_an_op_is_seen_where_the_device_works_for_it() -> None:
    profile = blueprint.profile(blueprint.a1())
    found = longest_of_op(profile, profile.hosts, "model/dense_1/MatMul")
    assert found is not None
    assert found.place.name == "ampere_sgemm_32x32"
    assert found.place.dur_ps == 100 * US
    assert longest_of_op(profile, profile.hosts, "MatMul of nobody") is None
