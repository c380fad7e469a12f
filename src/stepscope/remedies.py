"""Remedies: how to get data that a recording lacks.

`remedies.json` has the text of each remedy, by id. A remedy may have other texts for
recordings by another recorder, for recordings in which the requested tracers were
active, and for programs of one framework. A remedy with a single text needs no id.
"""

from __future__ import annotations

from enum import StrEnum, auto, unique
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Collection

#: Recorder of a database of Nsight Systems.
NSIGHT: Final = "nsight"
#: Placeholder for the text for recordings in which all tracers were active.
_AS_IN_FORCE: Final = "in_force"


class Tracers(msgspec.Struct, frozen=True, kw_only=True):
    """Levels of the tracers that were active while recording; null if unknown.

    Attributes:
        host: Level of the host tracer.
        device: Level of the device tracer.
        python: Level of the Python tracer.
        recorder: Recorder whose options these levels are: `kineto`, `nsight`, or null
            for TensorFlow, JAX and stepscope.
    """

    host: int | None = None
    device: int | None = None
    python: int | None = None
    recorder: str | None = None


class _WantedTracer(Frozen, frozen=True, forbid_unknown_fields=True):
    """A tracer, its minimum level, and how to request it, by name or by an option."""

    tracer: Literal["host", "device", "python"]
    level: int
    words: str
    kineto: str
    nsight: str

    def is_in_force(self, tracers: Tracers) -> bool:
        level: int | None = getattr(tracers, self.tracer)
        return level is not None and level >= self.level


class _FrameworkWords(Frozen, frozen=True, forbid_unknown_fields=True):
    """Texts for programs of one framework.

    Attributes:
        lacking: What to do if a requested tracer was not active.
        in_force: What to do if all requested tracers were active.
        nothing: Text if the program cannot have the missing data; replaces the others.
    """

    lacking: str | None = None
    in_force: str | None = None
    nothing: str | None = None


class _RemedyWords(Frozen, frozen=True, forbid_unknown_fields=True):
    """Texts of one remedy.

    Attributes:
        words: What to do; `{tracers}` is replaced by the tracers that were not active.
        tracers: Requested tracers.
        in_force: What to do if all requested tracers were active; or the id of a
            remedy.
        kineto: What to do if PyTorch's profiler recorded without a requested tracer.
        nsight: What to do if Nsight Systems recorded, with any tracers.
        frameworks: Framework ("Python" if there is none) → what to do in its programs.
        windows: What to do on Windows; without it, the same as elsewhere.
        commands: Commands to copy, in order, the one with the least privileges first.
            They are for Linux.
        framework_commands: Framework → a command that applies only to its programs.
    """

    words: str
    tracers: tuple[str, ...] = ()
    in_force: str | None = None
    kineto: str | None = None
    nsight: str | None = None
    frameworks: dict[str, str | _FrameworkWords] = msgspec.field(default_factory=dict)
    windows: str | None = None
    commands: tuple[str, ...] = ()
    framework_commands: dict[str, str] = msgspec.field(default_factory=dict)


class _RemedyTable(Frozen, frozen=True, forbid_unknown_fields=True):
    tracers: dict[str, _WantedTracer]
    remedies: dict[str, _RemedyWords]


_TABLE: Final = msgspec.json.decode(
    Path(__file__).with_name("remedies.json").read_bytes(), type=_RemedyTable
)


def _ask_for_tracers(words: str, tracers: list[str]) -> str:
    *first, last = tracers
    asked = f"{', '.join(first)} and {last}" if first else last
    return words.replace("{tracers}", asked)


def _words_of_unknown_recording(remedy_id: str) -> str:
    row = _TABLE.remedies[remedy_id]
    if not row.tracers:
        return row.words
    return _ask_for_tracers(
        row.words, [_TABLE.tracers[name].words for name in row.tracers]
    )


@unique
class Remedy(StrEnum):
    """All remedies; each value is the text for a recording with unknown tracers."""

    @staticmethod
    def _generate_next_value_(
        name: str, start: int, count: int, last_values: list[str]
    ) -> str:
        del start, count, last_values
        return _words_of_unknown_recording(name)

    # Equal texts have equal hashes, because findings are grouped by their text.
    __hash__ = str.__hash__

    ALLOW_DEVICE_TRACER = auto()
    ALLOW_PROFILING = auto()
    ANNOTATE_UNKNOWN_TIME = auto()
    COMPILE_FOR_LINES = auto()
    COPY_AGAIN = auto()
    COUNT_MATRIX_INSTRUCTIONS = auto()
    DESCRIBE_MODEL = auto()
    FIND_CUPTI = auto()
    LONGER_FOR_LOOKS = auto()
    LOOK_AT_OWN_OPS = auto()
    MARK_EACH_STEP = auto()
    MARK_FETCH_AND_READING = auto()
    MARK_STEPS = auto()
    MARK_STEPS_OF_PROGRAM = auto()
    MARK_STEPS_WITH_FETCH = auto()
    MARK_STEPS_WITH_ITERATOR = auto()
    NAME_FETCH = auto()
    NAME_RANGES = auto()
    NUMBER_STEPS = auto()
    OTHER_DEVICE_TRACER = auto()
    OTHER_MACHINE = auto()
    READ_FILES_BY_STAGE = auto()
    RECORD_ALLOCATIONS = auto()
    RECORD_CALLS = auto()
    RECORD_DEVICE = auto()
    RECORD_DEVICE_AGAIN = auto()
    RECORD_DEVICE_IF_USED = auto()
    RECORD_DEVICE_OF_COLLECTIVES = auto()
    RECORD_DEVICE_OF_WORKERS = auto()
    RECORD_DEVICE_UNLESS_MEANT = auto()
    RECORD_DEVICE_WHERE_ONE_IS = auto()
    RECORD_EXECUTIONS = auto()
    RECORD_FETCHES = auto()
    RECORD_FRAMES = auto()
    RECORD_FUNCTIONS = auto()
    RECORD_HLO = auto()
    RECORD_HOST_AND_DEVICE = auto()
    RECORD_KERNEL_OPS = auto()
    RECORD_LAUNCHES = auto()
    RECORD_LAUNCHING_HOST = auto()
    RECORD_LINES = auto()
    RECORD_MODULES_AND_SHAPES = auto()
    RECORD_OPS = auto()
    RECORD_OP_CALLS = auto()
    RECORD_OP_MEMORY = auto()
    RECORD_OP_MODES = auto()
    RECORD_OP_NAMES = auto()
    RECORD_PIPELINE = auto()
    RECORD_PIPELINE_AT_HOST_LEVEL = auto()
    RECORD_PIPELINE_OF_LIBRARY = auto()
    RECORD_PIPELINE_STAGES = auto()
    RECORD_SAMPLES = auto()
    RECORD_SAMPLES_FOR_LONGER = auto()
    RECORD_SHAPES = auto()
    RECORD_SHAPES_OF_COLLECTIVES = auto()
    RECORD_STAGE_PARAMETERS = auto()
    RECORD_UNKNOWN_TIME = auto()
    RECORD_WHOLE_CALL = auto()
    RECORD_WHOLE_CALL_OF_PROCESS = auto()
    RECORD_WHOLE_PIPELINE = auto()
    RECORD_WITH_STEPSCOPE = auto()
    STATE_BATCHES = auto()
    STOP_OTHER_PROFILERS = auto()
    USE_TRACER_OF_DEVICE = auto()
    WRITE_MEMORY = auto()

    @property
    def commands(self) -> tuple[str, ...]:
        """Commands to copy, in order; empty if none is needed."""
        return _TABLE.remedies[self.name].commands

    def words_on_windows(self) -> str:
        """Return the text for Windows, where the commands do not exist."""
        return _TABLE.remedies[self.name].windows or self

    def commands_for(self, frameworks: Collection[str]) -> tuple[str, ...]:
        """Return the commands for the given frameworks, or for all if none is given."""
        lines = _TABLE.remedies[self.name].framework_commands.items()
        fitting = [line for of, line in lines if not frameworks or of in frameworks]
        return (*fitting, *self.commands)

    @property
    def depends_on_recording(self) -> bool:
        """Whether the text depends on recorder, tracers or framework."""
        row = _TABLE.remedies[self.name]
        return bool(row.tracers or row.kineto or row.nsight or row.frameworks)


#: Remedies for a GPU program without device activity, most frequent cause first.
CAUSES_OF_SILENT_DEVICES: Final = (
    Remedy.ALLOW_PROFILING,
    Remedy.STOP_OTHER_PROFILERS,
    Remedy.FIND_CUPTI,
)


class FittingRemedy(Frozen, frozen=True, eq=True):
    """The text of a remedy that fits one recording.

    Attributes:
        words: The sentence to show.
        asks_nothing: True if the program cannot have the missing data.
    """

    words: str
    asks_nothing: bool = False


def fit_remedy(
    remedy: Remedy, tracers: Tracers, frameworks: Collection[str]
) -> FittingRemedy:
    """Return the text of a remedy for a recording made with these tracers.

    Args:
        remedy: The remedy for an unknown recording.
        tracers: Tracers that are known to have been active.
        frameworks: Frameworks of the program; "Python" if it uses none. A program of
            one framework gets no text about another framework.
    """
    row = _TABLE.remedies[remedy.name]
    wanted = [_TABLE.tracers[name] for name in row.tracers]
    lacking = [tracer for tracer in wanted if not tracer.is_in_force(tracers)]
    recorder = tracers.recorder
    recorder_words = _words_of_recorder(row, recorder)
    if recorder_words == _AS_IN_FORCE:
        lacking = []
    elif recorder_words is not None and (lacking or recorder == NSIGHT):
        # Texts for Nsight never request a tracer that may already have been active.
        return FittingRemedy(words=recorder_words)
    elif lacking and recorder is not None:
        options = [getattr(tracer, recorder) for tracer in lacking]
        return FittingRemedy(words=_ask_for_tracers(row.words, options))
    framework_words = _words_of_framework(row, frameworks)
    if framework_words.nothing is not None and (
        framework_words.lacking is None or not lacking
    ):
        return FittingRemedy(words=framework_words.nothing, asks_nothing=True)
    if lacking:
        return FittingRemedy(
            words=framework_words.lacking
            or _ask_for_tracers(row.words, [tracer.words for tracer in lacking])
        )
    in_force = row.words if row.in_force is None else row.in_force
    if in_force in _TABLE.remedies:
        in_force = _TABLE.remedies[in_force].words
    return FittingRemedy(words=framework_words.in_force or in_force)


def _words_of_recorder(row: _RemedyWords, recorder: str | None) -> str | None:
    if recorder is None:
        return None
    words: str | None = getattr(row, recorder)
    if words in _TABLE.remedies:
        return _words_of_recorder(_TABLE.remedies[words], recorder)
    return words


def _words_of_framework(
    row: _RemedyWords, frameworks: Collection[str]
) -> _FrameworkWords:
    if len(frameworks) != 1:
        return _FrameworkWords()
    (framework,) = frameworks
    words = row.frameworks.get(framework, _FrameworkWords())
    if isinstance(words, str):
        return _FrameworkWords(lacking=words, in_force=words)
    return words
