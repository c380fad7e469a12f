"""Functions of the program on a host without devices: which of them is a fault.

There a model's own ops are work of the host like the rest, so functions from which they
are called are told from those that hold the model up. What a function does is read from
the functions of libraries that it calls, never from its own name; what a library does
in compiled code leaves no such function.

Definition: docs/advice/host_work.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from stepscope.derive.facts.hosts.callbacks import CalledBack, called_back
from stepscope.derive.facts.hosts.function_runs import function_runs
from stepscope.derive.frameworks import PLAIN, frameworks_used
from stepscope.derive.host.function_frames import FEW_LOOKS
from stepscope.derive.intervals.spans import Spans
from stepscope.frozen import Frozen
from stepscope.patterns import COLLECTIONS, Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.evidence import Part
    from stepscope.derive.facts.hosts.function_runs import FunctionRuns
    from stepscope.derive.facts.step_shares import StepShares
    from stepscope.derive.host.function_names import FunctionName
    from stepscope.derive.run_derivation import RunDerivation
    from stepscope.thresholds import Thresholds

#: The owner whose time functions have.
OWNER: Final = "host_compute"
#: The signals that these functions ask for.
FUNCTION_READS: Final[tuple[RunDerivation[Any], ...]] = (
    *(function_runs, frameworks_used, called_back),
)
#: A function with this part of its caller's time is what the caller does.
_MOST: Final = 0.8


class HostFunction(Frozen, frozen=True, eq=True):
    """A function that the steps of a host without devices call.

    Attributes:
        part: It, with its share of the steps, all that it calls included.
        own_percent: The share that is its own.
        runs: When functions ran; None where only its own time is known.
        is_model: Whether the ops of the model are called from it.
        is_step: Whether the model is run by it, or while it waits.
        is_called_back: Whether an op of the compiled step calls it.
        is_seen: Whether calls, or looks enough, say how much of the steps it has.
        alone: When it works while no op runs, where the model runs as well while it
            does, or seems to: nothing else of it counts then. None for another one.
        scale: What the time of `alone` is to be multiplied with, where looks come too
            seldom to say in which of the steps it is.
    """

    part: Part
    own_percent: float
    runs: FunctionRuns | None
    is_model: bool
    is_step: bool
    is_called_back: bool = False
    is_seen: bool = True
    alone: Spans | None = None
    scale: float = 1.0

    def times_ps(self) -> tuple[int, ...]:
        """Return what it takes in each judged step; nothing where that is not known."""
        runs = self.runs
        if runs is None:
            return ()
        if self.alone is None:
            return runs.times_ps(self.part)
        times = self.scale * self.alone.within(runs.starts_ps, runs.ends_ps)
        lengths = runs.ends_ps - runs.starts_ps
        return tuple(np.minimum(times, lengths).astype(np.int64).tolist())


def host_functions(signals: Signals, shares: StepShares) -> tuple[HostFunction, ...]:
    """Return the functions with most of the work, on a host without devices.

    What the loop does by itself, or a library for it, is the step, save for lines that
    do work of their own; so it is of a function that calls the model.
    """
    if shares.device is not None:
        return ()
    runs = signals.of(function_runs).get(shares.host)
    own = [
        part
        for part in shares.parts(OWNER, place="inside")
        if part.function is not None and not part.loop
    ]
    caller = None if runs is None else shares.caller(OWNER, place="inside")
    if caller is not None and caller.key not in {part.key for part in own}:
        # What it does itself may be too little to be told.
        own.append(msgspec.structs.replace(caller, share_percent=0.0))
    if runs is not None and signals.of(frameworks_used) not in ((), PLAIN):
        # What a function does may be ops of the framework alone.
        own += [
            part
            for part in runs.own_functions()
            if not any(part.key == one.key for one in own)
        ]
    called = signals.of(called_back).get(shares.host, CalledBack())
    of_ops = (*called.working, *called.looking)
    found = [
        _of_part(part, runs, shares)
        for part in own
        if not any(part.key == one.key for one in of_ops)
    ]
    if runs is not None:
        around = [part for part in shares.parts(OWNER, place="inside") if part.loop]
        around += [
            one.part
            for one in found
            if one.is_model and not any(one.part.key == part.key for part in around)
        ]
        found += [one for part in around for one in _lines_of(part, runs, shares)]
    # What an op of the step calls is no step, whatever runs beside it; what only looks
    # at the program is the matter of `debug.print`.
    found += [
        HostFunction(
            *(part, part.share_percent, None),
            is_model=False,
            is_step=True,
            is_called_back=True,
        )
        for part in called.working
    ]
    return tuple(found)


def _of_part(part: Part, runs: FunctionRuns | None, shares: StepShares) -> HostFunction:
    own = part.share_percent
    if runs is None:
        return HostFunction(part, own, None, is_model=False, is_step=True)
    whole = 100 * sum(runs.times_ps(part)) / max(shares.total_ps, 1)
    # A model that is asked what to do next is not trained meanwhile.
    predicts = runs.mostly_predicts(part)
    looks = runs.looks_at(part)
    found = HostFunction(
        msgspec.structs.replace(
            part, share_percent=max(own, whole), inclusive=whole > own
        ),
        own,
        runs,
        is_model=not predicts and (runs.trains(part) or runs.calls_the_model(part)),
        is_step=not predicts and (runs.is_in_the_model(part) or runs.is_the_step(part)),
        is_seen=looks is None or looks >= FEW_LOOKS,
    )
    return _by_itself(found, shares) if found.is_model else found


def _by_itself(one: HostFunction, shares: StepShares) -> HostFunction:
    """Return what a function from which ops are called does alone, if that is most.

    Looks that come late make a function seem to call what follows it, and one that does
    call the model may do work of its own beside it.
    """
    alone = Spans.empty() if one.runs is None else one.runs.alone(one.part)
    if not len(alone):
        return one
    share = 100 * alone.length_ps / max(shares.total_ps, 1)
    part = msgspec.structs.replace(one.part, share_percent=share, inclusive=False)
    return msgspec.structs.replace(
        one, part=part, own_percent=share, is_model=False, is_step=True, alone=alone
    )


def _lines_of(
    part: Part, runs: FunctionRuns, shares: StepShares
) -> Iterator[HostFunction]:
    """Return the lines of a function around the model that do work of their own."""
    for one in runs.own_lines(part):
        time_ps, scale = one.working.length_ps, 1.0
        if runs.is_blurred and time_ps:
            # What lies around each look is that of other lines as well.
            scale = max(one.looked_ps / time_ps, 1.0)
        share = 100 * time_ps * scale / max(shares.total_ps, 1)
        yield HostFunction(
            *(one.of(part, share), share, runs),
            is_model=False,
            is_step=True,
            is_seen=one.looks >= FEW_LOOKS,
            alone=one.working,
            scale=scale,
        )


def fault_of(
    functions: tuple[HostFunction, ...],
    thresholds: Thresholds,
    *,
    runs_a_model: bool,
) -> HostFunction | None:
    """Return the function that holds up a host without devices; None for none.

    Args:
        functions: What `host_functions` returns.
        runs_a_model: Whether `has_ops`: functions are the step itself where no ops show
            a model.
    """
    blamed = _holds_up if runs_a_model else _wastes
    large = sorted(
        (one for one in functions if blamed(one, thresholds)),
        key=lambda one: -one.part.share_percent,
    )
    if runs_a_model or not large:
        return large[0] if large else None
    # Of functions that call each other the innermost one does what they all do.
    least = _MOST * large[0].part.share_percent
    return [one for one in large if one.part.share_percent >= least][-1]


def _holds_up(one: HostFunction, thresholds: Thresholds) -> bool:
    """Return whether a function beside the model holds much of the step.

    Its own time counts, and what it calls where that is not the model: a function from
    which the model's ops are called is the step itself. Ops that a device waits for are
    the matter of `launch.delay`. One or two looks of a short recording say that it ran,
    and not for how long.
    """
    limit = thresholds.host_function.value
    its_own = one.own_percent >= limit
    whole = not one.is_step and one.part.share_percent >= limit
    return not one.is_model and one.is_seen and (its_own or whole)


def _wastes(one: HostFunction, thresholds: Thresholds) -> bool:
    """Return whether a function that holds much of the step does what can be spared.

    It leaves much garbage, which comes from work on Python's objects one by one, or
    half of its time is work of a library that no program is for. What was called once
    is the program itself.
    """
    runs = one.runs
    if runs is None or not _holds_up(one, thresholds) or not runs.repeats(one.part):
        return False
    if runs.mostly_collects(one.part):
        return False
    litters = runs.collects_percent(one.part) >= thresholds.host_work_warn.value
    return litters or any(
        kind.is_waste and runs.mostly_in(one.part, kind.is_done_by)
        for kind in LIBRARY_KINDS
    )


def has_ops(signals: Signals, shares: StepShares, thresholds: Thresholds) -> bool:
    """Return whether there is a model; without one the functions are the step itself.

    In a program of a framework any op shows one: a fault may leave them little time.
    """
    ops_ps = sum(
        one.time_ps
        for one in shares.named(OWNER, place="inside")
        if one.function is None and one.name is not None and one.name not in COLLECTIONS
    )
    of_framework = signals.of(frameworks_used) not in ((), PLAIN)
    least = 0.0 if of_framework else thresholds.host_work_warn.value * shares.total_ps
    return 100 * ops_ps >= max(least, 1)


class LibraryWork(Frozen, frozen=True, eq=True):
    """One kind of work.

    Attributes:
        files: Paths of the files of the libraries that do it, from its own folder on.
        functions: Names of the functions that do it.
        advice: Group of the actions against a function that mostly does it.
        is_waste: Whether it is never what a program is for: then a function that mostly
            does it is a fault also where no model shows what the program is for.
    """

    files: Pattern[str]
    functions: Pattern[str]
    advice: str
    is_waste: bool = False

    def is_done_by(self, name: FunctionName) -> bool:
        """Return whether a library's function does it."""
        path = (name.file or "").replace("\\", "/")
        return bool(self.files.search(path) and self.functions.search(name.function))


_EVERY: Final = Pattern(r"")
_PYTHON: Final = r"/(?:python|pypy)\d[.\d]*/"
#: The first that takes half of a function's time is what it does.
LIBRARY_KINDS: Final = (
    LibraryWork(
        Pattern(_PYTHON + r"copy\.py$"),
        Pattern(r"^_?(?:deep)?copy"),
        "copies",
        is_waste=True,
    ),
    LibraryWork(
        Pattern(_PYTHON + r"(?:re/\w+|sre_compile|sre_parse|sre_constants)\.py$"),
        Pattern(r"compil|parse|optimi|simpl|charset|class|code|State|Tokenizer"),
        "compiles_patterns",
        is_waste=True,
    ),
    LibraryWork(
        Pattern(_PYTHON + r"(?:gzip|bz2|lzma|zipfile|tarfile|_compression)(?:\.py|/)"),
        Pattern(r"read|decompress|extract|next"),
        "unpacks",
    ),
    LibraryWork(
        Pattern(
            _PYTHON + r"(?:json/|csv\.py|pickle\.py|xml/|html/|configparser\.py)"
            r"|/yaml/"
        ),
        Pattern(r"decode|load|parse|read|next"),
        "parses",
    ),
    LibraryWork(
        Pattern(
            _PYTHON + r"(?:json/|csv\.py|pickle\.py|gzip\.py|bz2\.py|lzma\.py"
            r"|_compression\.py|zipfile)|/yaml/"
        ),
        _EVERY,
        "writes",
    ),
    LibraryWork(
        Pattern(
            _PYTHON + r"(?:logging/|traceback\.py|linecache\.py)"
            r"|/(?:loguru|absl/logging|tqdm|rich)/"
        ),
        _EVERY,
        "reports",
        is_waste=True,
    ),
    LibraryWork(
        Pattern(r"/(?:pandas|polars|pyarrow)/"),
        Pattern(
            r"iter_?rows|iter_?tuples|iter_?slices|\.rows?$|apply|map_elements"
            r"|__getitem__|to_?pylist|to_dicts?$"
        ),
        "works_on_rows",
        is_waste=True,
    ),
    LibraryWork(
        Pattern(r"/(?:PIL|imageio|skimage|cv2|torchvision/(?:io|transforms))/"),
        _EVERY,
        "decodes_images",
    ),
    LibraryWork(
        Pattern(
            _PYTHON + r"(?:multiprocessing/|concurrent/futures/|subprocess\.py)"
            r"|/joblib/"
        ),
        _EVERY,
        "starts_processes",
    ),
    LibraryWork(
        Pattern(_PYTHON + r"random\.py$"),
        _EVERY,
        "draws_numbers",
    ),
)
