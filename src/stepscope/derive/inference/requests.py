"""`requests`: the requests that a program served, one at a time on its thread.

A request is what the program announced as one (a request id or a batch size, a root of
its own), or the call with which a serving library runs one.

Definition: docs/tools/inference_profile.md#what-is-a-request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.columns.stat_values import StatRows, values_of_owners
from stepscope.derive.host.values import (
    add_shared_values,
    host_rows,
    host_stats,
    int_values,
    text_codes,
)
from stepscope.derive.intervals.nesting import nest_subset
from stepscope.derive.names.event_kinds import EventFlag, OpCategory
from stepscope.derive.reasons import WHY
from stepscope.frozen import Frozen
from stepscope.trace.reading.nullable import absent, nullable
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.derive.steps.chosen import Steps
    from stepscope.trace.model import TraceData

#: Columns of `Requests.rows`, by start.
REQUEST_ROWS: Final[dict[str, pl.DataType]] = {
    "event": pl.Int32(),  # row of events
    "track": pl.Int32(),  # the thread that served it
    "name": pl.String(),
    "start_ps": pl.Int64(),
    "dur_ps": pl.Int64(),
    "request_id": pl.String(),  # null where not recorded
    "batch_size": pl.Int64(),  # null where not recorded
}

_ID: Final = StatKey.REQUEST_ID
_BATCH: Final = StatKey.BATCH_SIZE
#: Size of a request that a batcher put together with others.
_TASK: Final = StatKey.BATCHING_TASK_SIZE
_ROOT: Final = StatKey.ROOT_LEVEL
_STEP: Final = StatKey.STEP_NUM
_KEYS: Final = (_ID, _BATCH, _TASK, _ROOT, _STEP)
#: The level of a root that the program declared as a request.
_REQUEST_ROOT: Final = -1

#: Calls of serving libraries, the outer ones first; the first that occur count.
_CALLS: Final = (
    r"^BatchingSessionRun$",
    r"^TfrtModelRun$",
    r"^ServingModelRun$",
    r"^(?:SessionRun|RunGraph)$",
)
#: The last of these calls also run training steps.
_PLAIN_SESSIONS: Final = _CALLS[-1]
#: Events that carry a batch size and are no requests: the pipeline's own calls, ops,
#: and the batches that a batcher makes of requests.
_NO_REQUEST: Final = (
    EventFlag.DATASET
    | EventFlag.PRODUCER
    | EventFlag.CONSUMER_WAIT
    | EventFlag.USER_INPUT
    | EventFlag.SERVING
    | EventFlag.CAPTURED_FUNCTION
    | EventFlag.PYTHON_FRAME
    | EventFlag.END_THUNK
)


class Requests(Frozen, frozen=True):
    """The requests of one host; those on one thread do not overlap.

    Attributes:
        without_values: Why ids and sizes could not be read, nor the requests that only
            these show; None where they could.
    """

    rows: pl.DataFrame
    without_values: Unavailable | None


def requests(
    *,
    trace: TraceData,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
    event_kinds: EventKinds,
    stats: pl.DataFrame | Unavailable,
    type_stats: pl.DataFrame | Unavailable,
    steps: Steps | Unavailable,
) -> Requests | Unavailable:
    """Find the outermost request events of every host thread.

    Args:
        steps: The steps; where the program marks them, an event without an id is
            training.
    """
    if not event_types["known"].any():
        return WHY["nameless_requests"]
    marked = not isinstance(steps, Unavailable) and steps.source == "marker"
    scene = _Scene(trace, tracks, events, event_kinds)
    found = [scene.library_calls(event_types["name"], marked=marked)]
    values = None
    if not isinstance(stats, Unavailable):
        values = scene.request_values(stats, type_stats)
        found += [scene.announced_requests(values, marked=marked)]
    rows = np.unique(np.concatenate(found))
    if not len(rows):
        return stats if isinstance(stats, Unavailable) else WHY["no_requests"]
    return Requests(
        scene.outermost_requests(rows, event_types["name"], values),
        without_values=stats if isinstance(stats, Unavailable) else None,
    )


class _Scene(Frozen, frozen=True):
    """The tables and codes that the search for requests needs throughout."""

    trace: TraceData
    tracks: pl.DataFrame
    events: pl.DataFrame
    kinds: EventKinds

    def library_calls(self, names: pl.Series, *, marked: bool) -> NDArray[np.int64]:
        """Calls of the outermost serving library that was at work."""
        for pattern in _CALLS:
            if pattern == _PLAIN_SESSIONS and marked:
                break
            wanted = names.str.contains(pattern).to_numpy()
            rows = host_rows(self.tracks, handles(self.events, "type"), wanted)
            if len(rows):
                return rows
        return np.empty(0, np.int64)

    def request_values(
        self, stats: pl.DataFrame, type_stats: pl.DataFrame | Unavailable
    ) -> Mapping[StatKey, StatRows]:
        """Return the few values that mark requests, by name; owners ascend."""
        strings = self.trace.strings
        found = host_stats(strings, self.tracks, stats, _KEYS)
        if isinstance(type_stats, Unavailable):
            return found
        add_shared_values(found, strings, self.tracks, self.events, type_stats)
        return found

    def announced_requests(
        self, values: Mapping[StatKey, StatRows], *, marked: bool
    ) -> NDArray[np.int64]:
        """Return events that the program itself announced as requests."""
        level_of, level = int_values(values[_ROOT])
        named = np.union1d(values[_ID].owner, level_of[level == _REQUEST_ROOT])
        found = self._host_requests(named, self.kinds.has(_NO_REQUEST))
        if marked:
            return found
        # A step or an op may state its batch size too.
        sized = values[_BATCH].owner
        others = np.union1d(values[_STEP].owner, level_of[level >= 1])
        sized = np.unique(sized[~np.isin(sized, others)])
        is_op = self.kinds.category != OpCategory.UNKNOWN
        more = self._host_requests(sized, is_op | self.kinds.has(_NO_REQUEST))
        return np.union1d(found, more)

    def _host_requests(
        self, rows: NDArray[np.int32], excluded: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        on_host = absent(self.tracks["device"])
        mine = on_host[handles(self.events, "track")[rows]]
        return rows[mine & ~excluded[handles(self.events, "type")[rows]]].astype(
            np.int64
        )

    def outermost_requests(
        self,
        rows: NDArray[np.int64],
        names: pl.Series,
        values: Mapping[StatKey, StatRows] | None,
    ) -> pl.DataFrame:
        """Return the requests that lie in no other one, by start."""
        start_ps = ints(self.events, "start_ps")[rows]
        dur_ps = ints(self.events, "dur_ps")[rows]
        track = handles(self.events, "track")[rows]
        outer = nest_subset(start_ps, dur_ps, track=track).parent < 0
        rows = rows[outer]
        return pl.DataFrame(
            {
                "event": rows.astype(np.int32),
                "track": track[outer],
                "name": names.gather(handles(self.events, "type")[rows]),
                "start_ps": start_ps[outer],
                "dur_ps": dur_ps[outer],
                "request_id": self.request_ids(rows, values),
                "batch_size": self.batch_sizes(rows, values),
            },
            schema=REQUEST_ROWS,
        ).sort("start_ps", "event")

    def request_ids(
        self, rows: NDArray[np.int64], values: Mapping[StatKey, StatRows] | None
    ) -> pl.Series:
        """Return the id of each request as text; null where it has none."""
        if values is None:
            return pl.Series([None] * len(rows), dtype=pl.String)
        owner, number = int_values(values[_ID])
        value, known = values_of_owners(rows, owner, number)
        numbers = nullable("id", value, known).cast(pl.String)
        owner, code, texts = text_codes(self.trace, values[_ID])
        at, spelled = values_of_owners(rows, owner, code)
        if not spelled.any():
            return numbers
        words = pl.Series(texts, dtype=pl.String).gather(at)
        return words.zip_with(pl.Series(spelled), numbers)

    def batch_sizes(
        self, rows: NDArray[np.int64], values: Mapping[StatKey, StatRows] | None
    ) -> pl.Series:
        """Return the batch size of each request; null where it is not recorded."""
        if values is None:
            return pl.Series([None] * len(rows), dtype=pl.Int64)
        size, known = values_of_owners(rows, *int_values(values[_BATCH]))
        task, batched = values_of_owners(rows, *int_values(values[_TASK]))
        return nullable("batch_size", np.where(known, size, task), known | batched)
