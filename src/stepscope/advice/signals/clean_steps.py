"""Which steps are judged: closed, typical ones.

Definition: docs/definitions/judging.md#which-steps-are-judged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from stepscope.derive.columns.arrays import ints
from stepscope.derive.step_windows.flags import LEFT_OUT
from stepscope.derive.steps.chosen import steps
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData
    from stepscope.derive.step_windows.windows import Windows

#: Flags of windows that mark an untypical step.
_UNTYPICAL = frozenset((*LEFT_OUT, "outlier", "cut"))


class StepBasis(Frozen, frozen=True, eq=True):
    """Where a host's steps come from.

    Attributes:
        source: How the steps were found; None where there are none.
        confidence: 0 to 1; 0 without steps.
    """

    source: str | None
    confidence: float


class JudgedRows(Frozen, frozen=True, eq=True):
    """Rows of a breakdown.

    Attributes:
        clean: Rows of the steps that are judged.
        all: Rows that totals are formed from.
        closed: Whether the window of each row ends where the next step starts.
    """

    clean: pl.DataFrame
    all: pl.DataFrame
    closed: bool


def step_basis(profile: ProfileData, host: str) -> StepBasis:
    """Return the source of the steps of one host."""
    found = profile.derived(host, steps)
    if isinstance(found, Unavailable):
        return StepBasis(None, 0.0)
    return StepBasis(found.source, found.confidence)


def clean_rows(
    charged: pl.DataFrame, windows: Windows, *, compile_percent: float
) -> JudgedRows:
    """Choose the rows of one device's breakdown to be judged.

    A single open step is used where there is no other, and untypical steps are used
    where all steps are untypical.
    """
    window = ints(charged, "window")
    rows = charged.hstack(windows.rows[["open_end", "flags"]][window])
    closed = rows.filter(~rows["open_end"])
    if not closed.height:
        return JudgedRows(rows, rows, closed=False)
    # Windows are few, and an expression over lists of texts takes long to begin.
    usual = [_UNTYPICAL.isdisjoint(flags) for flags in closed["flags"].to_list()]
    compiling = closed["compile_ps"].fill_null(0) * 100 > (
        closed["window_ps"] * compile_percent
    )
    typical = closed.filter(pl.Series(usual, dtype=pl.Boolean) & ~compiling)
    return JudgedRows(typical if typical.height else closed, closed, closed=True)
