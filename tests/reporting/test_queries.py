"""A report of a small profile asks polars little: most of a query is its beginning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from stepscope.cli import report

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_report_of_a_small_profile_makes_few_queries(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0
    collect = pl.LazyFrame._collect_eager

    def counted(self: pl.LazyFrame, **options: Any) -> pl.DataFrame:
        nonlocal asked
        asked += 1
        return collect(self, **options)

    monkeypatch.setattr(pl.LazyFrame, "_collect_eager", counted)
    report.compose_with_progress(
        [str(repository / "tests" / "data" / "gpu" / "torch_healthy")]
    )
    # None at all would mean that this counts something else than queries.
    assert 100 < asked <= 650
