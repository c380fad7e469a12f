"""Which steps of several hosts belong together."""

from __future__ import annotations

from tests.support.traces import blueprint

from stepscope.analysis.steps.measured_hosts import StepMatching, match_steps
from stepscope.analysis.steps.rows import HostSteps, host_steps


def host(
    name: str, *, first: int, begin: int = 0, count: int = 10, period: int = 100
) -> HostSteps:
    """Marked steps of one host; times in µs."""
    trace = blueprint.trace(
        [
            ("main", "train", begin + period * i, 90, {"_r": 1, "step_num": first + i})
            for i in range(count)
        ],
        host=name,
    )
    found = host_steps(blueprint.profile(trace), name)
    assert isinstance(found, HostSteps), found
    return found


def periodic(name: str, *, begin: int, count: int) -> HostSteps:
    """Steps that nothing announces: a batch, three kernels, and a pause."""
    trace = blueprint.trace(
        [
            ("gpu:0/7(Compute)", kernel, begin + 400 * i + offset, dur)
            for i in range(count)
            for kernel, offset, dur in (("a", 0, 100), ("b", 100, 50), ("c", 150, 100))
        ]
        + [
            ("gpu:0/8(MemcpyH2D)", "MemcpyH2D", begin + 400 * i + 10, 50)
            for i in range(count)
        ],
        host=name,
    )
    found = host_steps(blueprint.profile(trace), name)
    assert isinstance(found, HostSteps), found
    assert found.steps is not None
    return found


def keys(found: StepMatching) -> dict[str, list[int]]:
    return {name: key.tolist() for name, key in found.key.items()}


def test_marked_steps_are_matched_by_number() -> None:
    found = match_steps(
        [host("a", first=5, count=4), host("b", first=6, count=4)], [None, None]
    )
    assert found.by == "step_num"
    assert keys(found) == {"a": [-1, 6, 7, 8], "b": [6, 7, 8, -1]}
    assert found.in_lock_step


def test_clocks_that_differ_by_a_constant_do_not_matter() -> None:
    found = match_steps(
        [host("a", first=0), host("b", first=0, begin=5_000_000)], [None, None]
    )
    assert found.in_lock_step


def test_steps_without_numbers_are_matched_by_absolute_time() -> None:
    """Host b began to record three steps (1,200 µs) later and saw fewer of them."""
    hosts = [periodic("a", begin=0, count=12), periodic("b", begin=0, count=6)]
    found = match_steps(hosts, [1_000_000_000, 1_000_000_000 + 1_200_000])
    assert found.by == "time"
    assert keys(found)["b"] == [0, 1, 2, 3, 4, 5]
    assert keys(found)["a"] == [-1, -1, -1, 0, 1, 2, 3, 4, 5, -1, -1, -1]
    assert found.in_lock_step


def test_without_numbers_and_clocks_nothing_is_matched() -> None:
    hosts = [periodic("a", begin=0, count=12), periodic("b", begin=0, count=6)]
    found = match_steps(hosts, [1_000_000_000, None])
    assert (found.by, found.key, found.in_lock_step) == ("none", {}, False)
    assert [note.kind for note in found.notes] == ["hosts_not_matched"]


def test_one_host_needs_no_partner() -> None:
    found = match_steps([host("a", first=0)], [None])
    assert (found.by, found.in_lock_step) == ("one_host", True)
