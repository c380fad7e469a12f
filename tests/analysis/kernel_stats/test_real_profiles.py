"""Kernels of real recordings, counted from the files by hand."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest

import stepscope

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.profiles
def test_kernels_that_last_less_than_the_clock_s_tick_are_counted(
    shared_profile: Callable[[str], Path],
) -> None:
    (path,) = shared_profile("kineto/resnet50_num_workers_0").glob("*.json.gz")
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    launched = [one for one in events if one.get("cat") == "Kernel"]
    assert sum(one["dur"] == 0 for one in launched) == 636
    result = stepscope.open(path).tool("kernel_stats")
    assert result.kernel_count == len(launched) == 8_772
    assert result.kernel_time_us == sum(one["dur"] for one in launched)
    mean = {
        name: sum(times) / len(times)
        for name in {one["name"] for one in launched if one["dur"] == 0}
        if (times := [one["dur"] for one in launched if one["name"] == name])
    }
    rows = result.by_pair.filter(result.by_pair["kernel_name"].is_in(list(mean)))
    for name, of_kernel in rows.group_by("kernel_name"):
        total, count = of_kernel["total_us"].sum(), of_kernel["occurrences"].sum()
        assert total / count == pytest.approx(mean[str(name[0])])
