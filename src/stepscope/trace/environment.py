"""`environment`: what the program and the capture were; one row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.trace.tables import ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Mapping

#: What lies above every integer of a column's type.
_ENDS: Final[dict[pl.DataType, int]] = {pl.Int32(): 2**31, pl.Int64(): 2**63}


def environment_frame(given: Mapping[str, object]) -> pl.DataFrame:
    """Return the one row of the table; what is not given is null.

    An integer that its column has no room for is unknown, as damaged files have them.
    """
    dtypes = ENVIRONMENT.dtypes()
    row = {
        name: value
        for name, value in given.items()
        if not isinstance(value, int)
        or isinstance(value, bool)
        or -_ENDS[dtypes[name]] <= value < _ENDS[dtypes[name]]
    }
    return pl.DataFrame([{name: row.get(name) for name in dtypes}], schema=dtypes)
