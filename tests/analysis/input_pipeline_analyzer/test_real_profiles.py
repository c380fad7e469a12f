"""`input_pipeline_analyzer` on real programs whose input is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.results.input import analysed

import stepscope as ss

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.parametrize(
    ("item", "verdict", "category", "bottleneck"),
    [
        ("input_bound", "highly", "preprocessing", "ParallelMapV2"),
        ("sequential_map", "highly", "preprocessing", "Map"),
        ("healthy", "not", "preprocessing", None),
        ("keras_fit", "not", "preprocessing", None),
        ("xla", "not", "preprocessing", None),
        ("mirrored", "moderately", "preprocessing", None),
        ("tf215_python_tracer", "moderately", "preprocessing", None),
    ],
)
@pytest.mark.sweep(every=3)
def test_verdicts_on_real_programs(
    item: str,
    verdict: str,
    category: str,
    bottleneck: str | None,
    shared_profile: Callable[[str], Path],
) -> None:
    result = analysed(ss.open(shared_profile(f"tf_cpu/{item}")))
    assert result.verdict == f"{verdict}_input_bound"
    assert result.largest_category == category
    if bottleneck is not None:
        assert result.bottleneck_iterator is not None
        assert result.bottleneck_iterator.rsplit("::", 1)[-1] == bottleneck


def test_reading_behind_a_sequential_map_is_on_demand(
    shared_profile: Callable[[str], Path],
) -> None:
    ahead = analysed(ss.open(shared_profile("tf_cpu/input_bound")))
    behind = analysed(ss.open(shared_profile("tf_cpu/sequential_map")))
    assert ahead.host_breakdown_us["demanded_file_read"] == 0.0
    assert ahead.host_breakdown_us["advanced_file_read"] > 0.0
    assert behind.host_breakdown_us["demanded_file_read"] > 0.0
    assert behind.host_breakdown_us["advanced_file_read"] == 0.0


@pytest.mark.profiles
def test_two_independent_workers_keep_their_own_verdicts(
    shared_profile: Callable[[str], Path],
) -> None:
    result = analysed(ss.open(shared_profile("tf_cpu/two_workers")))
    assert [one.verdict for one in result.by_host] == [
        "highly_input_bound",
        "moderately_input_bound",
    ]
    assert result.input_percent is None
    for one in result.by_host:
        alone = analysed(ss.open(shared_profile("tf_cpu/two_workers")), host=one.host)
        assert alone.input_percent == one.input_percent
        assert alone.verdict == one.verdict


@pytest.mark.profiles
@pytest.mark.parametrize(
    ("item", "verdict", "loader_us"),
    [
        ("resnet50_num_workers_0", "highly_input_bound", 415_791.0),
        # The loader keeps up; the blocking copy of each batch does not.
        # Its workers make the batches: what they do is not known.
        ("resnet50_num_workers_4", "moderately_input_bound", None),
    ],
)
def test_a_loop_over_a_loader_and_its_remedy(
    item: str,
    verdict: str,
    loader_us: float | None,
    shared_profile: Callable[[str], Path],
) -> None:
    result = analysed(ss.open(shared_profile(f"kineto/{item}")))
    assert result.verdict == verdict
    loader = result.host_breakdown_us["preprocessing"]
    assert loader == (None if loader_us is None else pytest.approx(loader_us))
    assert result.host_breakdown_us["enqueue"] > 0.0


@pytest.mark.parametrize(
    # In jax08_conv functions say what the host did instead.
    "item",
    ["jax_cpu/steps", "tf_cpu/no_step_markers"],
)
def test_programs_that_show_no_fetching_are_not_declared_healthy(
    item: str, shared_profile: Callable[[str], Path]
) -> None:
    path = shared_profile(item)
    result = analysed(ss.open(next(path.rglob("*.xplane.pb*"))))
    assert result.verdict == "unknown"
    assert result.input_percent is None
