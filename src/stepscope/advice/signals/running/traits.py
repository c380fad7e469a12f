"""What kind of program was recorded, as far as it decides which advice fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.signals.signal import signal
from stepscope.derive.columns.arrays import handles, ints, picked
from stepscope.derive.names.event_kinds import EventFlag, event_kinds
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

    from stepscope.advice.finding import Action
    from stepscope.advice.signals.signal import Signals
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

#: Ranges and nodes that PyTorch's compiler puts around what it compiled.
_COMPILED: Final = r"^Torch-Compiled Region|^## Call CompiledFxGraph|^CompiledFunction"
#: Nodes of PyTorch's graph of gradients.
_BACKWARD: Final = r"^autograd::engine::evaluate_function|Backward\d*$"


class ProgramTraits(Frozen, frozen=True, eq=True):
    """What is seen of the program itself.

    Attributes:
        compiled: Whether parts of it ran as PyTorch's compiler made them.
        updates: Whether it updates weights; True where nothing can be said.
        trains: Whether it updates weights or computes gradients; likewise.
        engine: Whether a serving engine runs its model.
        graphed: Whether calls of graphs take more of its time than ops that run one
            by one.
    """

    compiled: bool = False
    updates: bool = True
    trains: bool = True
    engine: bool = False
    graphed: bool = False


@signal(event_kinds, "events")
def program_traits(profile: ProfileData, _: Thresholds) -> ProgramTraits:
    """Look at the names of what ran on any host."""
    compiled = updates = backward = told = engine = False
    in_graphs = 0
    for host in profile.hosts:
        kinds = profile.derived(host, event_kinds)
        events = profile.table(host, "events")
        types = profile.table(host, "event_types")
        if (
            isinstance(kinds, Unavailable)
            or isinstance(events, Unavailable)
            or isinstance(types, Unavailable)
        ):
            continue
        told |= bool(kinds.is_op().any())
        compiled |= _ran(events, types, _COMPILED)
        backward |= _ran(events, types, _BACKWARD)
        updates |= bool(kinds.has(EventFlag.OPTIMIZER).any())
        engine |= bool(kinds.has(EventFlag.ENGINE_ITERATION).any())
        in_graphs += _time_of(events, kinds.has(EventFlag.FUNCTION_CALL))
        in_graphs -= _time_of(events, kinds.has(EventFlag.EAGER_OP))
    return ProgramTraits(
        compiled=compiled,
        updates=updates or not told,
        trains=updates or backward or not told,
        engine=engine,
        graphed=in_graphs > 0,
    )


def _ran(events: pl.DataFrame, types: pl.DataFrame, pattern: str) -> bool:
    """Return whether anything of a name ran."""
    named = types["name"].str.contains(pattern).fill_null(value=False).to_numpy()
    return bool(len(picked(handles(events, "type"), named)))


def _time_of(events: pl.DataFrame, types: NDArray[np.bool_]) -> int:
    """Return the time of all events of some types, each counted in full."""
    rows = picked(handles(events, "type"), types)
    return int(ints(events, "dur_ps")[rows].sum())


def traits_of(signals: Signals) -> ProgramTraits:
    """Return the traits; those of a plain training program where they are unknown."""
    found = signals.of(program_traits)
    return ProgramTraits() if isinstance(found, Unavailable) else found


def fitting(actions: tuple[Action, ...], signals: Signals) -> tuple[Action, ...]:
    """Leave out what is for programs of another kind: training, inference, engines."""
    traits = traits_of(signals)
    wrong = {"inference", "engine"} if traits.updates else {"training"}
    if not traits.engine:
        wrong.add("engine")
    return tuple(action for action in actions if action.cause not in wrong)
