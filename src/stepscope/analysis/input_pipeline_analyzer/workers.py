"""What the worker processes of a program do while its steps run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import polars as pl

from stepscope.analysis.results.tool_tables import tables_of
from stepscope.derive.host.function_names import placed
from stepscope.derive.input_pipeline.worker_functions import worker_functions
from stepscope.unavailable import Missing, Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stepscope.derive.input_pipeline.worker_functions import WorkerFunctions
    from stepscope.derive.profile_data import ProfileData

WORKER_FUNCTIONS: Final = tables_of("input_pipeline_analyzer")["worker_functions"]

#: So much of the wait without a worker at work is most of it.
_MOST: Final = 0.5


class WorkerSide(msgspec.Struct, frozen=True, kw_only=True):
    """The worker processes of all hosts.

    Attributes:
        functions: One row per host and function, and what else their time goes to.
        idle: Whether no worker works during most of the time in which steps wait for a
            batch; None where that is not known.
        most: The function that takes most of their work, with file and line; None where
            none does.
        missing: Why fields are empty.
    """

    functions: pl.DataFrame
    idle: bool | None
    most: str | None
    missing: tuple[Missing, ...]


def worker_side(run: ProfileData) -> WorkerSide:
    """Put the workers of all hosts into one table.

    Definition: docs/tools/input_pipeline_analyzer.md#worker-processes.
    """
    found: dict[str, WorkerFunctions] = {}
    absent: list[Unavailable] = []
    for host in run.hosts:
        seen = run.derived(host, worker_functions)
        if isinstance(seen, Unavailable):
            absent.append(seen)
        else:
            found[host] = seen
    rows = [row for host, seen in found.items() for row in _rows(host, seen)]
    awaited = sum(one.awaited_ps for one in found.values())
    idle = sum(one.idle_ps for one in found.values())
    return WorkerSide(
        functions=pl.DataFrame(rows, schema=WORKER_FUNCTIONS.dtypes(), orient="row"),
        idle=idle >= _MOST * awaited if awaited else None,
        most=_most(found.values()),
        missing=()
        if rows
        else tuple(why.for_field("worker_functions") for why in absent[:1]),
    )


def _most(found: Iterable[WorkerFunctions]) -> str | None:
    """Return the function that takes most of the workers' work, where one does."""
    named = [one.worth_naming for one in found]
    most = max(
        (one for one in named if one is not None),
        key=lambda one: one.time_ps,
        default=None,
    )
    if most is None:
        return None
    return placed(f"`{most.function}`", most.file, most.line)


def _rows(host: str, seen: WorkerFunctions) -> Iterator[tuple[object, ...]]:
    nothing = (None,) * 5
    whole = seen.looked_ps

    def shares(time_ps: int) -> tuple[object, ...]:
        return (time_ps / PS_PER_MS, 100 * time_ps / whole, seen.workers, host)

    for one in seen.functions:
        place = (one.function, one.inside, one.file, one.line, one.hot_line)
        yield ("works", *place, *shares(one.time_ps))
    untold = seen.works_ps - sum(one.time_ps for one in seen.functions)
    if untold > 0:
        yield ("works", *nothing, *shares(untold))
    if seen.gives_ps:
        yield ("hands_over", *nothing, *shares(seen.gives_ps))
    if seen.waits_ps:
        yield ("waits_for_work", *nothing, *shares(seen.waits_ps))
