"""Every name of a value in `stats` and `type_stats` that derivations and tools look up.

The names are those that the writers of profiles use. Each key is a plain text that also
carries its meaning and its writers; `find_handle` accepts only these keys.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class StatKey(StrEnum):
    """A name with a meaning.

    Attributes:
        about: What the value is, in one sentence.
        writers: Frameworks or libraries that write the value.
    """

    about: str
    writers: str

    def __new__(cls, name: str, about: str, writers: str) -> Self:
        """Make a text that knows what it means."""
        key = str.__new__(cls, name)
        key._value_ = name
        key.about = about
        key.writers = writers
        return key

    # Steps
    STEP_NUM = "step_num", "Number of the step.", "the program's annotations"
    N_STEPS = (
        "n_steps",
        "Number of batches that one marker covers.",
        "stepscope's Keras callback",
    )
    STEP_NAME = "step_name", "Name of the stored step.", "TensorFlow, after recording"
    GROUP_ID = (
        "group_id",
        "Stored step group of the event.",
        "TensorFlow and XProf, after recording",
    )
    ROOT_LEVEL = (
        "_r",
        "Level of a root event: 1 for a step, -1 for a request.",
        "the program's annotations",
    )
    # Collections of garbage
    GENERATION = (
        "generation",
        "Which objects a collection of garbage looked at: 0 the youngest, 2 all.",
        "stepscope's recorder",
    )
    # Contexts between threads
    PRODUCER = "_p", "Id of the context that the event begins.", "TensorFlow, JAX"
    PRODUCER_TYPE = (
        "_pt",
        "Kind of the context that the event begins.",
        "TensorFlow, JAX",
    )
    CONSUMER = "_c", "Id of the context that the event works for.", "TensorFlow, JAX"
    CONSUMER_TYPE = (
        "_ct",
        "Kind of the context that the event works for.",
        "TensorFlow, JAX",
    )
    CONSUMER_PROCESS = (
        "_pid",
        "Process in which the context that the event works for began.",
        "TensorFlow, JAX",
    )
    ASYNCHRONOUS = (
        "_a",
        "Whether the event is asynchronous, and so encloses no others.",
        "TensorFlow, JAX",
    )
    FLOW = (
        "flow",
        "Number of an arrow between events.",
        "TensorFlow and XProf, after recording",
    )
    FORWARD_BACKWARD = "fwdbwd", "Ties a backward op to its forward op.", "PyTorch"
    # Ops
    TF_OP = "tf_op", "Framework op that the event belongs to.", "TensorFlow, JAX"
    HLO_OP = "hlo_op", "Instruction of the compiled program.", "XLA"
    HLO_MODULE = "hlo_module", "Compiled program.", "XLA"
    PROGRAM_ID = "program_id", "Number of the compiled program.", "XLA"
    EAGER_OP = "eager_op", "Op that is executed at once.", "TensorFlow"
    IS_EAGER = (
        "is_eager",
        "Whether the op ran outside any function.",
        "TensorFlow, after recording",
    )
    IS_FUNC = "is_func", "Whether what is executed is a function.", "TensorFlow"
    FUNCTION_CALL = (
        "tf_function_call",
        "How a call of a graph function was served.",
        "TensorFlow",
    )
    TRACING_COUNT = (
        "tracing_count",
        "Times that the function was traced so far.",
        "TensorFlow",
    )
    # Compiling
    REASON = "reason", "Why a function was compiled again.", "stepscope"
    # Python
    FILE_PATH = "file_path", "File that holds the function.", "stepscope"
    SOURCE_LINE = "source_line", "Line of the function that ran.", "stepscope"
    # Operands
    SHAPE = "shape", "Shapes of the operands.", "XLA, stepscope"
    SHAPES = "shapes", "Shapes of the operands.", "the program's annotations"
    TYPES = "types", "Element types of the operands.", "the program's annotations"
    EQUATION = "equation", "The equation of an einsum.", "XLA, stepscope"
    INPUT_DIMS = "Input Dims", "Shapes of the operands.", "PyTorch"
    INPUT_DIMS_OLD = "Input dims", "Shapes of the operands.", "PyTorch, older"
    INPUT_TYPE = "Input type", "Element types of the operands.", "PyTorch"
    CONCRETE_INPUTS = (
        "Concrete Inputs",
        "Values of operands that are no tensors.",
        "PyTorch",
    )
    # Costs
    FLOPS = "flops", "Floating-point operations of an execution.", "XLA"
    MODEL_FLOPS = (
        "model_flops",
        "Floating-point operations of an execution before the compiler changed it.",
        "XLA",
    )
    BYTES_ACCESSED = (
        "bytes_accessed",
        "Bytes that an execution reads and writes.",
        "XLA",
    )
    COUNTER_VALUE = (
        "counter_value",
        "Value of a counter at one time.",
        "TensorFlow, Nsight Systems, stepscope",
    )
    # Input pipelines
    ID = "id", "Number of an iterator or of an executor's step.", "tf.data, TensorFlow"
    ELEMENT_ID = "element_id", "Element that one stage hands to another.", "tf.data"
    BUFFERED_ELEMENTS = "buffered_elements", "Elements that a buffer held.", "tf.data"
    STAGE_NAME = "_ipl_stage_name", "Name of a marked stage.", "input libraries"
    STAGE_CATEGORY = "_ipl_stage_cat", "What a marked stage does.", "input libraries"
    # Serving
    REQUEST_ID = (
        "request_id",
        "Id of the request.",
        "serving libraries, the program's annotations",
    )
    BATCH_SIZE = (
        "batch_size",
        "Items in the batch.",
        "serving libraries, the program's annotations",
    )
    BATCHING_TASK_SIZE = (
        "batching_input_task_size",
        "Items of a request that a batcher put together with others.",
        "TensorFlow Serving",
    )
    CPU_BUDGET = (
        "cpu_budget",
        "Cores that the root of a pipeline may use.",
        "tf.data",
    )
    # Devices
    KERNEL_DETAILS = (
        "kernel_details",
        "Registers, memory, block and grid of a launch.",
        "TensorFlow, JAX",
    )
    CORRELATION = (
        "correlation",
        "Number that a call and its work share.",
        "PyTorch, Nsight Systems",
    )
    STREAM = "stream", "Stream that is told to wait.", "PyTorch, Nsight Systems"
    WAIT_ON_STREAM = (
        "wait_on_stream",
        "Stream that is waited for.",
        "PyTorch, Nsight Systems",
    )
    WAIT_ON_RECORD = (
        "wait_on_cuda_event_record_corr_id",
        "Number of the call that recorded the event that is waited for.",
        "PyTorch, Nsight Systems",
    )
    COLLECTIVE_NAME = "Collective name", "What a collective does.", "PyTorch"
    COLLECTIVE_DTYPE = "dtype", "Element type of a collective.", "PyTorch"
    IN_ELEMENTS = (
        "In msg nelems",
        "Elements that each member gives to a collective.",
        "PyTorch",
    )
    OUT_ELEMENTS = (
        "Out msg nelems",
        "Elements that each member gets from a collective.",
        "PyTorch",
    )
    GROUP_SIZE = "Group size", "Members of the group of a collective.", "PyTorch"
    PROCESS_GROUP_NAME = "Process Group Name", "Group of a collective.", "PyTorch"
    PROCESS_GROUP_RANKS = (
        "Process Group Ranks",
        "Ranks in the group of a collective.",
        "PyTorch",
    )
