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
    # Before polars 2, eager operations call what programs call.
    name = "_collect_eager" if hasattr(pl.LazyFrame, "_collect_eager") else "collect"
    collect = getattr(pl.LazyFrame, name)

    def counted(self: pl.LazyFrame, **options: Any) -> pl.DataFrame:
        nonlocal asked
        asked += 1
        frame: pl.DataFrame = collect(self, **options)
        return frame

    monkeypatch.setattr(pl.LazyFrame, name, counted)
    report.compose_with_progress(
        [str(repository / "tests" / "data" / "gpu" / "torch_healthy")]
    )
    # None at all would mean that this counts something else than queries.
    assert 100 < asked <= 650
