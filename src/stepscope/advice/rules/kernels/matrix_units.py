"""Rules about matrix products that do not use the matrix units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.advice.catalogue import rule_item
from stepscope.advice.item import rule
from stepscope.advice.judging.kernel_time import (
    WORKED_READS,
    Worked,
    faster_kernels_change,
    judge_kernels,
    judged_kernels,
    undecided_kernels,
)
from stepscope.advice.judging.program_facts import kernel_type_facts

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.devices.kernel_work import KernelWork

_ODD_SIZE_ITEM: Final = rule_item("tc.dims")

#: Saved share of the kernels' time: up to about 2/3, minus the cost of padding.
_ODD_SIZES_GAIN: Final = (0.3, 0.6)


def _odd_sizes_worked(work: KernelWork) -> Worked:
    """Return 16-bit products of odd sizes that do not use the matrix units."""
    without_units = work.rows.filter(
        pl.col("eligible")
        & ~pl.col("collective")
        & ~pl.col("matrix_units")
        & (pl.col("precision") == "16")
    )
    return Worked(
        without_units.filter(pl.col("odd_size").is_not_null()),
        _ODD_SIZES_GAIN,
        pl.concat(
            [without_units.filter(~pl.col("sized")), undecided_kernels(work.rows)]
        ),
    )


@rule(_ODD_SIZE_ITEM, *WORKED_READS, change=faster_kernels_change(_odd_sizes_worked))
def judge_odd_sizes(signals: Signals) -> Finding:
    work = judged_kernels(signals, matrix_units=True)
    worked = _odd_sizes_worked(work)
    odd = worked.rows
    return judge_kernels(
        _ODD_SIZE_ITEM,
        signals,
        work,
        worked,
        why_unknown=_ODD_SIZE_ITEM.reason("no_sizes"),
        facts=_ODD_SIZE_ITEM.facts(odd_size=odd["odd_size"][0] if odd.height else None),
    )


_UNUSED_UNITS_ITEM: Final = rule_item("tc.unused")

#: Saved share of the kernels' time: a third to two thirds (up to three times as fast).
_UNUSED_UNITS_GAIN: Final = (1 / 3, 2 / 3)


def _unused_units_worked(work: KernelWork) -> Worked:
    """Return the products that do not use the matrix units."""
    eligible = _eligible_products(work)
    unknown = eligible.filter(pl.col("matrix_units").is_null())
    return Worked(
        eligible.filter(~pl.col("matrix_units")),
        _UNUSED_UNITS_GAIN,
        pl.concat([unknown, undecided_kernels(work.rows)]),
        narrowed=True,
    )


@rule(
    _UNUSED_UNITS_ITEM,
    *WORKED_READS,
    change=faster_kernels_change(_unused_units_worked),
)
def judge_unused_units(signals: Signals) -> Finding:
    work = judged_kernels(signals, matrix_units=True)
    worked = _unused_units_worked(work)
    return judge_kernels(
        _UNUSED_UNITS_ITEM,
        signals,
        work,
        worked,
        actions=_UNUSED_UNITS_ITEM.actions_for(
            *kernel_type_facts(signals, work, worked.rows)
        ),
        facts=_UNUSED_UNITS_ITEM.facts(eligible=work.share(_eligible_products(work))),
    )


def _eligible_products(work: KernelWork) -> pl.DataFrame:
    return work.rows.filter(
        pl.col("eligible") & ~pl.col("collective") & ~pl.col("reorders")
    )
