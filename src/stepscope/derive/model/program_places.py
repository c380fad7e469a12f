"""`program_places`: the lines and the modules of the program around each host event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles, picked
from stepscope.derive.model.places import Places, label_inside, unite_places
from stepscope.frozen import Frozen
from stepscope.trace.reading.nullable import held

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.intervals.nesting import Nesting

#: `$file.py:12 function` and `file.py(12): function`: a function of the program, with
#: the line where it begins. A frame without a line is no source line.
_FRAME: Final = (
    r"^\$(?P<file>\S.*?):(?P<line>\d+) (?P<function>.+)$",
    r"^(?P<file>[^()]*\.py)\((?P<line>\d+)\): (?P<function>.+)$",
)
#: Frames in files of what was installed: frameworks, also where their path was cut,
#: and Python.
LIBRARY: Final = (
    r"(?:^|[\\/])(?:site-packages|dist-packages|lib(?:64)?[\\/]python\d[.\d]*)[\\/]"
    r"|^(?:torch|torchvision|jax|jaxlib|flax|optax|tensorflow|keras|numpy|triton)[\\/]"
    r"|^(?:contextlib|functools|threading|runpy)\.py:|^<"
)
#: A module of the model while it runs, each with its own number.
_MODULE: Final = r"^nn\.Module: (?P<module>.+)$"


class EventPlaces(Frozen, frozen=True):
    """The places of one kind of frame.

    Attributes:
        node: int32 by row of events; the innermost place around the event, or its own
            if it is a frame; -1 for none.
        places: The tree of places; keys are rows of `texts`.
        texts: Names of the frames: `file.py:12 function`, or a module's name.
    """

    node: NDArray[np.int32]
    places: Places
    texts: pl.Series


class ProgramPlaces(Frozen, frozen=True):
    """Where in the program each host event happened.

    Attributes:
        lines: Functions of the program; None where no frame was recorded.
        modules: Modules of the model; None where none was recorded.
    """

    lines: EventPlaces | None
    modules: EventPlaces | None


def program_places(
    *, events: pl.DataFrame, event_types: pl.DataFrame, event_nesting: Nesting
) -> ProgramPlaces:
    """Find the frames around every event of the same thread.

    Only frames that the recording holds as events count. A frame's line is the first
    line of its function, which is what tracers record.
    """
    names = event_types.select("name")
    lines = names.select(
        pl.coalesce(
            pl.when(pl.col("name").str.contains(pattern)).then(
                pl.format(
                    "{}:{} {}",
                    *(
                        pl.col("name").str.extract(pattern, number)
                        for number in (1, 2, 3)
                    ),
                )
            )
            for pattern in _FRAME
        )
    ).to_series()
    modules = names["name"].str.extract(_MODULE)
    return ProgramPlaces(
        _event_places(events, event_nesting, lines),
        _event_places(events, event_nesting, modules),
    )


def _event_places(
    events: pl.DataFrame, nesting: Nesting, texts: pl.Series
) -> EventPlaces | None:
    """Return places of the events whose type has a text."""
    named = held(texts)
    if not named.any():
        return None
    types = handles(events, "type")
    rows = picked(types, named)
    if not len(rows):
        return None
    label = label_inside(nesting.parent, rows, len(types))
    above = nesting.parent[rows]
    around = np.where(above >= 0, label[above], np.int32(-1))
    # Equal texts are one frame, whatever track their types come from.
    distinct = texts.drop_nulls().unique(maintain_order=True)
    place = dict(zip(distinct.to_list(), range(len(distinct)), strict=True))
    of_type = np.array([place.get(text, -1) for text in texts.to_list()], np.int32)
    places = unite_places(around, of_type[types[rows]])
    node = np.append(places.node, np.int32(-1))[label]
    return EventPlaces(node, places, distinct)
