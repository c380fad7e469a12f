"""The plane that describes the model becomes the table `parameters`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.formats.lost import or_lost
from stepscope.remedies import Remedy
from stepscope.trace.reading.nullable import nullable
from stepscope.trace.tables import PARAMETERS
from stepscope.unavailable import Unavailable
from stepscope.xspace.vocabulary import MODEL_PLANE, ParameterStat

if TYPE_CHECKING:
    from stepscope.formats.xplane.decoded.recording import Recording

_TEXTS: Final = (ParameterStat.SCOPE, ParameterStat.SHAPE, ParameterStat.DTYPE)
_NOT_DESCRIBED: Final = Unavailable(
    code="NOT_RECORDED",
    reason="The recording does not describe the variables of the model.",
    remedy=Remedy.DESCRIBE_MODEL,
)


def parameters(recording: Recording) -> pl.DataFrame | Unavailable:
    """Return every variable of the model, in the order of the recording."""
    space = recording.space
    planes = [row for row, it in enumerate(space.planes) if it.name == MODEL_PLANE]
    if not planes:
        return or_lost(_NOT_DESCRIBED, recording.damaged_at)
    types = space.event_types
    rows = np.flatnonzero(np.isin(types.plane, planes) & ~types.unknown)
    values = recording.type_values((*_TEXTS, ParameterStat.TRAINABLE))
    texts = recording.texts()
    columns = {
        key: texts.series(key, texts.numbers(values[key])[rows]) for key in _TEXTS
    }
    trained, known = values[ParameterStat.TRAINABLE].integers()
    frame = pl.DataFrame(
        {
            "name": pl.Series(recording.type_names[rows].tolist(), dtype=pl.String),
            "scope": columns[ParameterStat.SCOPE].fill_null(""),
            "shape": columns[ParameterStat.SHAPE],
            "dtype": columns[ParameterStat.DTYPE],
            "trainable": nullable("trainable", trained[rows] != 0, known[rows]),
        }
    )
    sizes = pl.col("shape").str.json_decode(pl.List(pl.Int64()))
    return frame.with_columns(sizes).select(
        pl.col(column).cast(dtype) for column, dtype in PARAMETERS.dtypes().items()
    )
