"""A training program that was made faster, and measured again, by its own authors.

The recordings are exports of another profiler; the test writes what they hold (ranges,
calls, kernels, copies) as a profile and reads it back.
"""

from __future__ import annotations

import gzip
import sqlite3
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
from tests.support.traces.replayed import Program

from stepscope.derive.replay.gains import gain_of
from stepscope.derive.step_time.owners import IDLE_OWNERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LADDER: Final = "nsys_ladder"
#: Median period with eight workers, in ms, as its steps were measured by hand.
WITH_WORKERS: Final = 176.7
_KERNEL: Final = (
    "regs:32 static_shared:0 dynamic_shared:0 grid:1,1,1 block:32,1,1 occ_pct:50"
)
_COPY: Final = "kind_src:pageable kind_dst:device size:1 dest:0 async:1"
_COPIES: Final = {1: "MemcpyH2D", 2: "MemcpyD2H", 8: "MemcpyD2D"}


def lines_of(export: Path) -> list[Any]:
    """The lines of a blueprint that hold the same."""
    base = sqlite3.connect(f"file:{export}?mode=ro", uri=True)
    texts = dict(base.execute("SELECT id, value FROM StringIds"))
    (origin,) = base.execute("SELECT min(start) FROM NVTX_EVENTS").fetchone()
    (called,) = base.execute(
        "SELECT min(start) FROM CUPTI_ACTIVITY_KIND_RUNTIME"
    ).fetchone()
    origin = min(origin, called)
    lines: list[Any] = []

    def add(track: str, name: str, start: int, end: int, **stats: Any) -> None:
        lines.append((track, name, (start - origin) / 1e3, (end - start) / 1e3, stats))

    for start, end, text, text_id, thread in base.execute(
        "SELECT start, end, text, textId, globalTid FROM NVTX_EVENTS"
        " WHERE end IS NOT NULL"
    ):
        name = text or texts[text_id]
        mark = {"_r": 1, "step_num": int(name[5:])} if name[:5] == "step " else {}
        add(f"thread {thread}", name, start, end, **mark)
    for start, end, name, number, thread in base.execute(
        "SELECT start, end, nameId, correlationId, globalTid"
        " FROM CUPTI_ACTIVITY_KIND_RUNTIME"
    ):
        call = texts[name].partition("_v")[0]
        add(f"thread {thread}", call, start, end, correlation_id=number)
    for start, end, name, number, stream, details in _activities(base, texts):
        track = f"gpu:0/{stream}(Compute)"
        add(track, name, start, end, correlation_id=number, **details)
    base.close()
    return lines


def _activities(base: sqlite3.Connection, texts: dict[int, str]) -> Iterator[Any]:
    for start, end, name, number, stream in base.execute(
        "SELECT start, end, shortName, correlationId, streamId"
        " FROM CUPTI_ACTIVITY_KIND_KERNEL"
    ):
        yield start, end, texts[name], number, stream, {"kernel_details": _KERNEL}
    for start, end, kind, number, stream in base.execute(
        "SELECT start, end, copyKind, correlationId, streamId"
        " FROM CUPTI_ACTIVITY_KIND_MEMCPY"
    ):
        yield start, end, _COPIES[kind], number, stream, {"memcpy_details": _COPY}
    for start, end, number, stream in base.execute(
        "SELECT start, end, correlationId, streamId FROM CUPTI_ACTIVITY_KIND_MEMSET"
    ):
        yield start, end, "Memset", number, stream, {}


@pytest.fixture(name="ladder", scope="module")
def _ladder(
    shared_profile: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Program]:
    folder = tmp_path_factory.mktemp("ladder")

    def program(name: str) -> Program:
        packed = shared_profile(LADDER) / f"{name}.sqlite.gz"
        export = folder / f"{name}.sqlite"
        export.write_bytes(gzip.decompress(packed.read_bytes()))
        return Program(lines_of(export))

    return program


@pytest.mark.profiles
def test_the_baseline_foretells_what_more_workers_reached(
    ladder: Callable[[str], Program],
) -> None:
    """The loader works between the steps' ranges, in the program's own thread."""
    found = ladder("baseline")
    assert found.check.stands
    assert found.check.unexplained_percent < 1
    gain = gain_of(found.graph, found.without(*IDLE_OWNERS, place="between"))
    assert gain.can_be_told
    for gained in (gain.low_ps, gain.high_ps):
        foretold = (gain.period_ps - gained) / 1e9
        assert foretold == pytest.approx(WITH_WORKERS, rel=0.05)


@pytest.mark.profiles
def test_with_more_workers_only_the_stalls_are_left_to_gain(
    ladder: Callable[[str], Program],
) -> None:
    """Most steps do not wait any more: the median step cannot gain from input."""
    found = ladder("8workers")
    assert found.check.stands
    gain = gain_of(found.graph, found.without(*IDLE_OWNERS, place="between"))
    per_window = gain.by_window_ps[1] / 1e9
    assert abs(np.median(per_window)) < 0.05 * WITH_WORKERS
    assert gain.high_ps / 1e9 < 0.25 * gain.period_ps / 1e9
