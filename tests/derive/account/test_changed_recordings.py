"""Real recordings with one thing changed: each changes exactly what it must.

What must change follows from the meaning of the change and from the moments in the
file, read by others' code; the changed file goes the whole way from its bytes. Marks of
steps that are taken out: `tests/formats/test_steps_markers_dropped.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from tests.conftest import DATA
from tests.support.traces import recorded

from stepscope.advice.engine import evaluate, signals_of
from stepscope.derive.account.time_by_cause import Account, account
from stepscope.derive.step_time.owners import BUSY_OWNERS, IDLE_OWNERS, OWNERS
from stepscope.derive.step_windows.windows import windows
from stepscope.session import open_profile
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.support.traces.recorded import Moment, Recording

    from stepscope.advice.finding import Finding
    from stepscope.analysis.tools import ProfileWithTools

    Change = Callable[[Recording], None]

pytestmark = pytest.mark.slow(seconds=0.1)

US, MS = 1_000_000, 1_000_000_000
#: Recorded on an H100: three XSpaces, and PyTorch's own JSON.
LAUNCH_BOUND = ("gpu/torch_launch_bound", "gpu/check_torch/own.pt.trace.json.gz")
ON_DEVICE = (*LAUNCH_BOUND, "gpu/torch_copies", "gpu/jax_healthy")
WITH_COPIES = ("gpu/torch_copies", "gpu/jax_copies", LAUNCH_BOUND[1])
#: Recorded on CPUs: an XSpace of TensorFlow, PyTorch's own JSON.
ON_HOST = ("tf_custom_loop", "torch_train")
COMPUTE = tuple(name for name in BUSY_OWNERS if name.startswith("compute"))
#: Calls in which the host waits for a device.
WAITS = ("Synchronize", "cudaEventQuery", "np.asarray", "ToLiteral", "Await")


@dataclass(frozen=True)
class Told:
    """What is told of a recording.

    Attributes:
        profile: The run.
        rows: The account, one row for each window of the one device or host.
        windows: Flags and lengths of the windows.
    """

    profile: ProfileWithTools
    rows: pl.DataFrame
    windows: pl.DataFrame

    @cached_property
    def findings(self) -> dict[str, Finding]:
        """Rule → its finding."""
        found = evaluate(signals_of(self.profile))
        return {one.id: one for one in found}

    @property
    def closed(self) -> pl.DataFrame:
        """The account of the windows that the begin of another step closes."""
        return self.rows.filter(~self.windows["open_end"])

    def mean_ms(self) -> float:
        """The mean step of the overview."""
        overview = self.profile.tool("overview_page")
        assert not isinstance(overview, Unavailable)
        mean = overview.step_time_ms.mean
        assert mean is not None
        return mean


def file_of(name: str) -> Path:
    """The recorded file below a folder of `tests/data`."""
    path = DATA / name
    if path.is_file():
        return path
    suffixes = (".xplane.pb", ".xplane.pb.gz", ".trace.json", ".trace.json.gz")
    (found,) = (one for one in path.rglob("*") if one.name.endswith(suffixes))
    return found


def told_of(path: Path) -> Told:
    profile = open_profile(path)
    (host,) = profile.hosts
    found, placed = profile.derived(host, account), profile.derived(host, windows)
    assert isinstance(found, Account)
    assert not isinstance(placed, Unavailable)
    found.self_check()
    return Told(profile, found.rows, placed.rows)


@cache
def original(name: str) -> Told:
    return told_of(file_of(name))


@pytest.fixture
def changed(tmp_path: Path) -> Callable[[str, Change], Told]:
    """`changed(NAME, change)`: what is told of a changed copy of a recording."""

    def make(name: str, change: Change) -> Told:
        copy = recorded.recording(file_of(name))
        change(copy)
        return told_of(copy.write(tmp_path))

    return make


@cache
def moments_of(name: str) -> list[Moment]:
    """What a file holds, to be read only."""
    return recorded.recording(file_of(name)).moments


def times(rows: pl.DataFrame, owners: Sequence[str]) -> pl.DataFrame:
    return rows.select(f"{owner}_ps" for owner in owners)


def summed(rows: pl.DataFrame, owners: Sequence[str]) -> pl.Series:
    """The time of some owners in each window; what is unknown is none."""
    found: pl.Series = times(rows, owners).select(
        pl.sum_horizontal(pl.all().fill_null(0))
    )[:, 0]
    return found


def marks(moments: Sequence[Moment]) -> list[Moment]:
    return sorted(
        (one for one in moments if one.step is not None and one.kind == "host"),
        key=lambda one: one.start_ps,
    )


def on_their_way(moments: Sequence[Moment]) -> list[int]:
    """By step, how long launches were on their way to a device that did nothing."""
    calls = recorded.calls_of(moments)
    begins = [one.start_ps for one in marks(moments)]
    found = [0] * len(begins)
    busy_until = 0
    work = (one for one in moments if one.on_device and one.correlation in calls)
    for one in sorted(work, key=lambda one: one.start_ps):
        called = calls[one.correlation or -1].start_ps
        step = sum(begin <= one.start_ps for begin in begins) - 1
        found[step] += max(0, one.start_ps - max(called, busy_until))
        busy_until = max(busy_until, one.end_ps)
    return found


@pytest.mark.slow(seconds=0.3)
@pytest.mark.parametrize("name", [*ON_DEVICE, *ON_HOST])
@pytest.mark.sweep(every=3)
def test_a_copy_that_nothing_changes_tells_the_same(
    name: str, changed: Callable[[str, Change], Told]
) -> None:
    before, after = original(name), changed(name, lambda _: None)
    assert after.rows.equals(before.rows)
    for rule, one in before.findings.items():
        assert (after.findings[rule].status, after.findings[rule].value) == (
            one.status,
            one.value,
        )


@pytest.mark.parametrize("name", ON_DEVICE)
@pytest.mark.sweep(every=3)
def test_a_slower_host_leaves_the_devices_work_as_it_is(
    name: str, changed: Callable[[str, Change], Told]
) -> None:
    before = original(name)
    after = changed(name, lambda copy: recorded.slow_host(copy, 2))
    # Steps begin on the host: they take twice as long, and the device no more.
    closed, slower = before.closed, after.closed
    assert slower["window_ps"].to_list() == [2 * it for it in closed["window_ps"]]
    assert times(slower, BUSY_OWNERS).equals(times(closed, BUSY_OWNERS))
    # So all that is added is idle, and nobody else than the host is to blame.
    added = summed(slower, IDLE_OWNERS) - summed(closed, IDLE_OWNERS)
    assert added.to_list() == closed["window_ps"].to_list()
    for owner in ("switch", "queued", "peer"):
        assert summed(slower, [owner]).sum() <= summed(closed, [owner]).sum()


@pytest.mark.parametrize("name", LAUNCH_BOUND)
def test_a_slower_host_delays_launches_that_much(
    name: str, changed: Callable[[str, Change], Told]
) -> None:
    """Whatever was walked takes twice as long, and what the device hid is bare now.

    Only the launch on its way is no slower: it is the device's own. What became long
    enough to count as silence is nobody's.
    """
    before = original(name)
    after = changed(name, lambda copy: recorded.slow_host(copy, 2))
    owners = ("launch", "host_compute")
    latency = on_their_way(moments_of(name))
    unexplained = summed(before.closed, ["unexplained"])
    rows = zip(
        summed(before.closed, owners),
        summed(after.closed, owners),
        summed(before.closed, BUSY_OWNERS),
        summed(after.closed, ["unexplained"]) - 2 * unexplained,
        latency,
        strict=True,
    )
    for was, now, busy, silent, on_way in rows:
        assert 2 * was - on_way <= now + max(silent, 0)
        assert now <= 2 * (was + busy)
    # Pauses of half a millisecond became silence of one, which nobody explains.
    of_host, shares = (*owners, "unexplained"), []
    for one in (before.closed, after.closed):
        program = one["window_ps"].sum() - summed(one, ["profiler"]).sum()
        shares.append(summed(one, of_host).sum() / program)
    assert shares[0] < shares[1]
    for told in (before, after):
        assert told.findings["launch.delay"].status == "fail"


@pytest.mark.parametrize("name", ON_HOST)
def test_a_program_without_a_device_that_is_slower_is_so_in_all(
    name: str, changed: Callable[[str, Change], Told]
) -> None:
    before = original(name)
    after = changed(name, lambda copy: recorded.slow_host(copy, 2))
    every = [owner.name for owner in OWNERS]
    doubled = times(before.closed, every) * 2
    assert times(after.closed, every).equals(doubled)
    assert after.mean_ms() == pytest.approx(2 * before.mean_ms())


@pytest.mark.parametrize("name", ON_DEVICE)
@pytest.mark.parametrize("by_us", [-3, 3])
@pytest.mark.sweep(every=3)
def test_a_clock_that_is_a_little_off_moves_owners_by_no_more(
    name: str, by_us: int, changed: Callable[[str, Change], Told]
) -> None:
    before = original(name)
    after = changed(name, lambda copy: recorded.shift_device(copy, by_us * US))
    assert times(after.closed, BUSY_OWNERS).equals(times(before.closed, BUSY_OWNERS))
    # Every stretch without work has two edges on the device's clock.
    work = sum(one.on_device for one in moments_of(name))
    for owner in IDLE_OWNERS:
        if owner in ("input", "output", "launch"):
            continue
        moved = summed(after.closed, [owner]) - summed(before.closed, [owner])
        assert int(moved.abs().sum()) <= 2 * abs(by_us) * US * work
    # A call is told to wait for its copy by the launch latency, which moves as well.
    waiting = ("input", "output", "launch")
    moved = summed(after.closed, waiting) - summed(before.closed, waiting)
    assert int(moved.abs().sum()) <= 2 * abs(by_us) * US * work
    for rule in ("launch.delay", "gaps.between", "amp.share"):
        assert after.findings[rule].status == before.findings[rule].status


@pytest.mark.parametrize("name", LAUNCH_BOUND)
@pytest.mark.parametrize("by_ms", [-5, 5])
@pytest.mark.sweep(every=3)
def test_a_clock_that_is_far_off_is_said_to_be(
    name: str, by_ms: int, changed: Callable[[str, Change], Told]
) -> None:
    """Kernels before their calls, or calls that return before what they wait for."""
    after = changed(name, lambda copy: recorded.shift_device(copy, by_ms * MS))
    quality = after.findings["capture.quality"]
    assert quality.status == "fail"
    assert "clocks" in (quality.note, *quality.because)
    assert quality.severity == "critical"
    (off,) = (one.value for one in quality.facts if one.name == "clock_error")
    assert off == pytest.approx(1000 * abs(by_ms), abs=300)
    assert after.findings["launch.delay"].status == "cannot_tell"


def queue_up(copy: Recording) -> None:
    """Let the device begin when the host is through, and the host wait for nothing."""
    begin = min(one.start_ps for one in copy.moments)
    end = max(one.end_ps for one in copy.moments)
    recorded.drop(
        copy,
        lambda one: one.kind == "host" and any(word in one.name for word in WAITS),
    )
    recorded.shift_device(copy, end - begin)


@pytest.mark.parametrize("name", [*LAUNCH_BOUND, "gpu/jax_healthy"])
@pytest.mark.sweep(every=3)
def test_a_device_with_a_long_queue_never_waits_for_the_host(
    name: str, changed: Callable[[str, Change], Told]
) -> None:
    before, after = original(name), changed(name, queue_up)
    assert "launch.delay" in {
        rule for rule, one in before.findings.items() if one.status == "fail"
    }
    of_host = [one for one in IDLE_OWNERS if one not in ("switch", "queued")]
    assert summed(after.closed, of_host).sum() == 0
    assert summed(after.closed, ["queued"]).sum() > 0
    for rule in ("launch.delay", "gaps.between", "host.work"):
        assert after.findings[rule].status != "fail", rule
    # All of the work lies in the windows of the device, and none of it twice.
    compute = sum(one.dur_ps for one in moments_of(name) if one.kind == "kernel")
    assert summed(after.rows, COMPUTE).sum() == pytest.approx(compute, rel=0.01)


@pytest.mark.parametrize("name", [*ON_DEVICE, *ON_HOST])
@pytest.mark.sweep(every=3)
def test_a_stretched_step_is_an_outlier_and_no_other_changes(
    name: str, changed: Callable[[str, Change], Told]
) -> None:
    """In the middle of the fifth step the host takes half a second longer."""
    before, chosen, by_ps = original(name), 4, 500 * MS
    mark = marks(moments_of(name))[chosen]
    at = mark.start_ps + mark.dur_ps // 2
    after = changed(name, lambda copy: recorded.stretch(copy, at, by_ps))
    other = [row for row in range(before.rows.height) if row != chosen]
    assert after.rows[other].equals(before.rows[other])
    was, now = before.rows[chosen], after.rows[chosen]
    assert (now["window_ps"] - was["window_ps"]).item() == by_ps
    assert times(now, BUSY_OWNERS).equals(times(was, BUSY_OWNERS))
    assert (summed(now, IDLE_OWNERS) - summed(was, IDLE_OWNERS)).item() == by_ps
    assert "outlier" in after.windows["flags"][chosen]
    closed = before.closed.height
    grown = after.mean_ms() - before.mean_ms()
    assert grown == pytest.approx(by_ps / MS / closed)


@pytest.mark.parametrize("name", WITH_COPIES)
@pytest.mark.sweep(every=3)
def test_time_of_copies_that_are_taken_out_is_idle_and_has_an_owner(
    name: str, changed: Callable[[str, Change], Told]
) -> None:
    before = original(name)
    after = changed(
        name, lambda copy: recorded.drop(copy, lambda one: one.kind == "copy")
    )
    copied = ("copy_in", "copy_out", "copy_within")
    assert summed(before.closed, copied).sum() > 0
    assert times(after.closed, copied).sum().row(0) == (0, 0, 0)
    for same in ([*COMPUTE, "memset"], ["profiler"]):
        assert times(after.closed, same).equals(times(before.closed, same))
    added = summed(after.closed, IDLE_OWNERS) - summed(before.closed, IDLE_OWNERS)
    assert added.to_list() == summed(before.closed, copied).to_list()
    # The calls of the copies are still there and say what the host did.
    unexplained = summed(after.closed, ["unexplained"]).sum()
    assert unexplained <= summed(before.closed, ["unexplained"]).sum()


def rename_kernels(copy: Recording) -> None:
    """Give every kernel a name that no table knows."""
    names: dict[str, str] = {}
    for one in copy.moments:
        if one.kind == "kernel":
            one.name = names.setdefault(one.name, f"zq{len(names)}")


@pytest.mark.parametrize("name", ["gpu/torch_healthy", "gpu/jax_healthy", *ON_DEVICE])
@pytest.mark.sweep(every=3)
def test_unknown_names_of_kernels_change_no_time(
    name: str, changed: Callable[[str, Change], Told]
) -> None:
    before, after = original(name), changed(name, rename_kernels)
    others = [owner.name for owner in OWNERS if owner.name not in COMPUTE]
    assert times(after.rows, others).equals(times(before.rows, others))
    # Kernels side by side are charged to the narrower one, so the sum is what stays.
    assert summed(after.rows, COMPUTE).equals(summed(before.rows, COMPUTE))
    assert after.mean_ms() == before.mean_ms()


def test_what_only_names_tell_is_unknown_without_them(
    changed: Callable[[str, Change], Told],
) -> None:
    """JAX replays its step as one graph: names alone tell what its kernels are."""
    name = "gpu/jax_healthy"
    before, after = original(name), changed(name, rename_kernels)
    assert before.closed["compute_16_ps"].sum() > 0
    assert before.findings["amp.share"].status == "pass"
    for width in ("compute_16", "compute_tf32", "compute_64"):
        assert after.rows[f"{width}_ps"].null_count() == after.rows.height
    overview: Any = after.profile.tool("overview_page")
    assert "device_compute_16" not in overview.breakdown_ms
    told = overview.precision
    assert told.compute_16bit_percent is None
    assert told.compute_tf32_percent is None
    assert told.default_evidence_percent == 100.0
    why = {one.field: one.reason for one in overview.missing}
    assert "The precision of kernels with" in why["breakdown_ms.device_compute_16"]
    assert "The precision of kernels with" in why["precision.compute_16bit_percent"]
    assert after.findings["amp.share"].status == "cannot_tell"


def test_widths_that_operands_tell_need_no_names(
    changed: Callable[[str, Change], Told],
) -> None:
    name = "gpu/torch_healthy"
    before, after = original(name), changed(name, rename_kernels)
    was, now = (one.closed["compute_16_ps"].sum() for one in (before, after))
    assert 0.9 * was < now <= was
    assert after.findings["amp.share"].status in ("pass", "cannot_tell")
