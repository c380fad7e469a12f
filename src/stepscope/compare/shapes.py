"""What a recording tells of the size of a batch: operands, inputs, stages."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles
from stepscope.derive.columns.stat_values import (
    find_handle,
    numbers_of,
    rows_of_owners,
    rows_with_key,
)
from stepscope.derive.host.values import text_codes
from stepscope.patterns import Pattern
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.profile_data import ProfileData

_SIZES: Final = (
    StatKey.INPUT_DIMS,
    StatKey.INPUT_DIMS_OLD,
    StatKey.SHAPES,
    StatKey.SHAPE,
)
#: The element type before the sizes: other types are no other sizes.
_TYPE: Final = Pattern(r"[a-z]+\d*(?:e\dm\d\w*)?\[")


def operand_shapes(
    profile: ProfileData, host: str, events: NDArray[np.int32]
) -> pl.Series | None:
    """Return the sizes of the operands of some host events, null where unknown.

    Args:
        profile: The run.
        host: Which of its hosts.
        events: Rows of `events`, ascending.

    Returns:
        Texts of the name "sizes", one per event, in which element types are left out;
        None where nothing recorded any.
    """
    stats = profile.table(host, "stats")
    if isinstance(stats, Unavailable) or not len(events):
        return None
    trace = profile.trace(host)
    values = rows_of_owners(stats, "event", events)
    for name in _SIZES:
        found = values.only(values.key == find_handle(trace.strings, name))
        owner, code, texts = text_codes(trace, found)
        if not len(owner):
            continue
        at = np.full(len(events), len(texts))
        at[np.searchsorted(events, owner)] = code
        plain = [_TYPE.sub("[", text) or None for text in texts]
        return pl.Series("sizes", [*plain, None], pl.String)[at]
    return None


def program_inputs(profile: ProfileData) -> dict[str, dict[str, float]] | None:
    """Return the sizes of all inputs of each compiled program, with their number.

    Inputs of the parts of a program count too. None where no program was recorded.
    """
    found: dict[str, Counter[str]] = {}
    for host in profile.hosts:
        table = profile.table(host, "hlo_ops")
        if isinstance(table, Unavailable):
            continue
        inputs = table.filter(
            (pl.col("opcode") == "parameter") & pl.col("shape").is_not_null()
        )
        # One row per input of a program, not per execution.
        for module, shape in inputs.select("module", "shape").iter_rows():
            found.setdefault(module, Counter())[_TYPE.sub("[", shape)] += 1
    return {
        module: {one: float(n) for one, n in sorted(sizes.items())}
        for module, sizes in sorted(found.items())
    } or None


def batch_sizes(profile: ProfileData) -> tuple[int, ...] | None:
    """Return the sizes of batches that stages of the input pipeline name.

    None where no stage names one.
    """
    found: set[int] = set()
    for host in profile.hosts:
        stats = profile.table(host, "stats")
        stages = profile.table(host, "iterators")
        if isinstance(stats, Unavailable) or isinstance(stages, Unavailable):
            continue
        handle = find_handle(profile.trace(host).strings, StatKey.BATCH_SIZE)
        values = rows_with_key(stats, "event", handle)
        events = np.unique(values.owner)
        mine = events[np.isin(events, handles(stages, "event"))]
        numbers, known = numbers_of(values, mine, handle)
        found.update(numbers[known].tolist())
    return tuple(sorted(found)) or None
