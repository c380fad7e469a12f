"""Elements of an input pipeline that a function of Python makes, behind an op."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.finding import Part
from stepscope.advice.signals.signal import signal
from stepscope.derive.columns.arrays import handles, ints, picked
from stepscope.derive.host.called_below import called_most
from stepscope.derive.host.core_time import core_time
from stepscope.derive.host.function_frames import function_frames
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.step_time.host_classes import host_classes
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

#: TensorFlow's ops that call Python: `tf.py_function`, `tf.numpy_function`.
_OPS: Final = r"(?:^|[:/])(?:Eager)?PyFunc(?:Stateless)?$"
#: What they call first.
_CALLED_BY_OP: Final = Pattern(r"^FuncRegistry\.__call__$")
#: What asks a dataset of Keras for its batches.
_OF_KERAS: Final = Pattern(r"^PyDatasetAdapter\.")


class PythonElements(Frozen, frozen=True):
    """Ops that call Python while a step waits for its batch.

    Attributes:
        percent: The share of the waits in which such an op runs.
        function: The program's function that was seen most within them; None where
            none was seen. It has no share: brief calls are seldom found by a look.
        of_keras: Whether a `PyDataset` of Keras calls it, which has workers of its own.
        waiting: In how much of that time no thread of the program wanted a core: then
            the function waits, and holds no lock; None where no clock tells.
    """

    percent: float
    function: Part | None
    of_keras: bool = False
    waiting: float | None = None


@signal(function_frames, host_classes, core_time)
def python_elements(profile: ProfileData, _: Thresholds) -> dict[str, PythonElements]:
    """Return what is known of such ops, of the hosts that wait for a batch."""
    found = {}
    for host in profile.hosts:
        classes = profile.derived(host, host_classes)
        events, types = (profile.table(host, it) for it in ("events", "event_types"))
        if (
            isinstance(classes, Unavailable)
            or isinstance(events, Unavailable)
            or isinstance(types, Unavailable)
            or not len(classes.input_wait)
        ):
            continue
        calls = types["name"].str.contains(_OPS).fill_null(value=False)
        rows = picked(handles(events, "type"), calls.to_numpy())
        if len(rows):
            spans = Spans.from_events(
                ints(events, "start_ps")[rows], ints(events, "dur_ps")[rows]
            )
            waits = classes.input_wait
            called = spans & waits
            found[host] = PythonElements(
                100 * called.length_ps / waits.length_ps,
                *_function(profile, host),
                waiting=_waiting(profile, host, called),
            )
    return found


def _waiting(profile: ProfileData, host: str, spans: Spans) -> float | None:
    """Return in how much of a set no thread wanted a core, in percent."""
    clocks = profile.derived(host, core_time)
    if isinstance(clocks, Unavailable):
        return None
    every = [*clocks.threads.values(), *clocks.rest.values()]
    known = spans & Spans.union_of(time.seen for time in every)
    if not len(known) or 2 * known.length_ps < spans.length_ps:
        return None
    awake = Spans.union_of(time.awake for time in every)
    return 100 * (known - awake).length_ps / known.length_ps


def _function(profile: ProfileData, host: str) -> tuple[Part | None, bool]:
    """Return the function behind such ops, and whether Keras's dataset calls it."""
    frames = profile.derived(host, function_frames)
    if isinstance(frames, Unavailable):
        return None, False
    name = called_most(frames, _CALLED_BY_OP)
    if name is None:
        return None, False
    return Part.of_function(name, 0.0), called_most(frames, _OF_KERAS) == name
