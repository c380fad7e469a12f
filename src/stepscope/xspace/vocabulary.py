"""Names that stepscope itself writes into the profile message, and reads back."""

from __future__ import annotations

from typing import Final

#: Kinds of events that PyTorch recorded carry its category under this name.
CATEGORY: Final = "stepscope_category"
#: The category of its operators.
OP_CATEGORY: Final = "cpu_op"
#: The category of the ranges that programs and libraries name.
ANNOTATION_CATEGORY: Final = "user_annotation"

#: The plane of the host's threads, as every producer calls it.
HOST_PLANE: Final = "/host:CPU"
#: The plane that records when and how the profile was made, as every producer calls it.
ENVIRONMENT_PLANE: Final = "Task Environment"
#: Annotations that a framework recorded too: a finished profile has them once, on the
#: plane of the threads; a recording that was cut off has no other copy.
FORWARDED_PLANE: Final = "/host:stepscope-forwarded"

#: A device's plane says under this name how the program numbers it, where its tracer
#: numbers it otherwise.
PROGRAM_ORDINAL: Final = "stepscope_program_ordinal"

#: The plane that describes the model: each kind of event on it is a variable.
MODEL_PLANE: Final = "/host:stepscope-model"


#: Where a client that recorded several hosts says how a clock differs from its own.
CLOCK_PLANE: Final = "/host:stepscope-clock"


#: Where `stepscope run` says that the program ended before its first step.
END_PLANE: Final = "/host:stepscope-end"
#: With what it ended: an exception, an exit status.
END_STAT: Final = "ended_with"


class ClockStat:
    """What the plane of the clock says of the host."""

    #: By how much the host's clock was ahead of the client's, nanoseconds.
    OFFSET_NS: Final = "offset_ns"
    #: That may be wrong by so much, nanoseconds.
    DOUBT_NS: Final = "doubt_ns"


class ParameterStat:
    """What the plane of the model says of each variable."""

    SCOPE: Final = "scope"
    #: A list of sizes as JSON, `[]` for a scalar.
    SHAPE: Final = "shape"
    DTYPE: Final = "dtype"
    #: 1 where it is trained, 0 where it is not.
    TRAINABLE: Final = "trainable"


class EnvironmentStat:
    """What the plane `Task Environment` says of a recording of ours."""

    START: Final = "profile_start_time"
    STOP: Final = "profile_stop_time"
    #: A serialized ProfileOptions: the levels in force.
    OPTIONS: Final = "profile_options"
    #: A serialized ProfileOptions: the levels that were asked for.
    ASKED: Final = "stepscope_asked_options"
    #: Names of the collectors that recorded, with commas.
    COLLECTORS: Final = "stepscope_collectors"
    VERSION: Final = "stepscope_version"
    #: How much further the wall clock went than the monotonic one, nanoseconds.
    DRIFT_NS: Final = "clock_drift_ns"
    PROCESS: Final = "process_id"
    #: How many cores of the machine the process may use.
    CORES: Final = "stepscope_usable_cores"
    #: From then on events are missing that were too many to store: nanoseconds since
    #: 1970.
    COMPLETE_UNTIL: Final = "stepscope_complete_until"
    #: CUDA of the program, as CUDA writes versions; left out where it is not known.
    CUDA_RUNTIME: Final = "cuda_runtime_version"
    CUDA_DRIVER: Final = "cuda_driver_version"
