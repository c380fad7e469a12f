"""Real programs: replayed without a change, a step takes what it took.

What no graph explains must be said: these are the profiles of which it is.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl
import pytest
from tests.support.kept_promises import check_graph

from stepscope.derive.replay.critical import CriticalPath, critical_path
from stepscope.derive.replay.graph import step_graph
from stepscope.derive.replay.node_times import Identity, replay_check, replay_graph
from stepscope.derive.replay.nodes import Graph
from stepscope.session import open_profile

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[3]
#: Profiles of which no gain can be told from a replay, as docs/replay.md has them.
CANNOT_TELL: Final = frozenset(
    {
        "gpu/jax_copies",
        # Other programs used the device, which took turns.
        "gpu/ways/run_jax",
        "gpu/ways/server_theirs_jax",
        "gpu_jax_amd/jax08_elementwise",
        "gpu_jax_amd/jax_conv_minimal",
        "jax_ahead",
        "jax_cpu/annotations",
        "jax_cpu/nosteps",
        "jax_cpu/python_tracer",
        "jax_cpu/steps",
        "tf_cpu/xla",
    }
)


@pytest.fixture(name="graphs", scope="module")
def _graphs(
    recorded_run: str, shared_profile: Callable[[str], Path]
) -> list[tuple[Graph, Identity, CriticalPath]]:
    profile = open_profile(shared_profile(recorded_run))
    found = []
    for host in profile.hosts:
        graph = profile.derived(host, step_graph)
        check = profile.derived(host, replay_check)
        path = profile.derived(host, critical_path)
        if (
            isinstance(graph, Graph)
            and isinstance(check, Identity)
            and isinstance(path, CriticalPath)
        ):
            found.append((graph, check, path))
    if not found:
        pytest.skip("no steps that could be replayed")
    return found


def test_the_graph_holds_what_was_recorded(
    graphs: list[tuple[Graph, Identity, CriticalPath]],
) -> None:
    for graph, _, _ in graphs:
        check_graph(graph)
        run = replay_graph(graph, slack="kept")
        assert (run.start_ps == graph.nodes.start_ps).all()
        early = replay_graph(graph, slack="dropped")
        assert (early.start_ps <= graph.nodes.start_ps).all()


def test_the_critical_path_fills_every_window(
    graphs: list[tuple[Graph, Identity, CriticalPath]],
) -> None:
    for graph, _, path in graphs:
        sums = path.rows.group_by("window").agg(pl.col("dur_ps").sum()).sort("window")
        assert sums["window"].to_list() == graph.sampled.rows.tolist()
        assert sums["dur_ps"].to_list() == np.diff(graph.sampled.bounds_ps).tolist()


def test_those_that_cannot_tell_are_the_ones_that_the_page_lists() -> None:
    page = (ROOT / "docs" / "replay.md").read_text("utf-8")
    told = re.findall(r"^\| (\S+) \|.*\*\*cannot tell\*\*", page, re.MULTILINE)
    assert sorted(told) == sorted(CANNOT_TELL)


def test_replayed_without_a_change_a_step_takes_what_it_took(
    recorded_run: str, graphs: list[tuple[Graph, Identity, CriticalPath]]
) -> None:
    name = recorded_run.partition("/plugins/")[0].removesuffix("/train")
    for _, check, _ in graphs:
        if name in CANNOT_TELL:
            assert check.why_not is not None
            continue
        assert check.stands, check
        assert check.median_error_percent <= 1
        assert check.p95_error_percent <= 3
        assert check.unexplained_percent <= 10
