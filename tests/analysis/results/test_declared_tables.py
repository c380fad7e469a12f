"""Every table of a result is as its field declares it."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest
from tests.support.kept_promises import check_frame
from tests.support.results.tables import declared_tables

import stepscope as ss
from stepscope.analysis.tools import TOOLS

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.derive.profile_data import ProfileData

SHIPPED = (
    *("tf_keras_fit", "tf_eager", "jax_marked", "torch_train"),
    *("gpu/check_jax", "gpu/check_torch"),
)
#: One column for each category that a request spends time in.
NOT_DECLARED = {"requests.breakdown_ms: not declared"}


@cache
def opened(path: Path) -> ProfileData:
    """A recording; both tests ask it for the same results."""
    return ss.open(path)


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.sweep(every=3)
def test_tables_hold_what_their_columns_declare(name: str, repository: Path) -> None:
    profile = opened(repository / "tests" / "data" / name)
    results = [profile.tool(tool.name) for tool in TOOLS]
    ops = profile.tool("framework_op_stats").rows["name"]
    results += [profile.tool("framework_op_stats", op=op) for op in (ops[0], ops[-1])]
    found = [pair for result in results for pair in declared_tables(result)]
    assert len(found) > 5
    problems = {problem for pair in found for problem in check_frame(*pair)}
    assert problems - NOT_DECLARED == set()


@pytest.mark.slow(seconds=1.0)
def test_no_column_of_numbers_of_things_holds_minus_one(repository: Path) -> None:
    """Unknown is null: only differences and what is freed may be below zero."""
    below = set()
    for name in SHIPPED:
        profile = opened(repository / "tests" / "data" / name)
        for tool in TOOLS:
            for schema, frame in declared_tables(profile.tool(tool.name)):
                below |= {
                    f"{schema.name}.{column}"
                    for column in frame.columns
                    if frame[column].dtype.is_numeric() and (frame[column] < 0).any()
                }
    assert below <= {
        "memories.timeline.allocation_bytes",
        "memories.timeline.requested_bytes",
        "memories.breakdown.allocation_bytes",
        "memories.steps.growth_bytes",
    }
