"""Names of values in `stats` and `type_stats` that derivations and tools look up.

Writers of profiles chose these names. `trace/stat_keys.md` defines the meaning and the
writers of each; `find_handle` accepts only these keys.
"""

from __future__ import annotations

from enum import StrEnum


class StatKey(StrEnum):
    """Name of a value with a known meaning."""

    # Steps
    STEP_NUM = "step_num"
    N_STEPS = "n_steps"
    STEP_NAME = "step_name"
    GROUP_ID = "group_id"
    ROOT_LEVEL = "_r"
    # Garbage collections
    GENERATION = "generation"
    # Contexts passed between threads
    PRODUCER = "_p"
    PRODUCER_TYPE = "_pt"
    CONSUMER = "_c"
    CONSUMER_TYPE = "_ct"
    CONSUMER_PROCESS = "_pid"
    ASYNCHRONOUS = "_a"
    FLOW = "flow"
    FORWARD_BACKWARD = "fwdbwd"
    # Ops
    TF_OP = "tf_op"
    HLO_OP = "hlo_op"
    HLO_MODULE = "hlo_module"
    PROGRAM_ID = "program_id"
    EAGER_OP = "eager_op"
    IS_EAGER = "is_eager"
    IS_FUNC = "is_func"
    FUNCTION_CALL = "tf_function_call"
    TRACING_COUNT = "tracing_count"
    # Compilation
    REASON = "reason"
    # Python
    FILE_PATH = "file_path"
    SOURCE_LINE = "source_line"
    CALLED = "called"
    RESULT_UNUSED = "result_unused"
    # Operands
    SHAPE = "shape"
    SHAPES = "shapes"
    TYPES = "types"
    EQUATION = "equation"
    INPUT_DIMS = "Input Dims"
    INPUT_DIMS_OLD = "Input dims"
    INPUT_TYPE = "Input type"
    CONCRETE_INPUTS = "Concrete Inputs"
    # Costs
    FLOPS = "flops"
    MODEL_FLOPS = "model_flops"
    BYTES_ACCESSED = "bytes_accessed"
    COUNTER_VALUE = "counter_value"
    # Input pipelines
    ID = "id"
    ELEMENT_ID = "element_id"
    BUFFERED_ELEMENTS = "buffered_elements"
    BUFFERED_MEGABYTES = "buffered_bytes_MB"
    STAGE_NAME = "_ipl_stage_name"
    STAGE_CATEGORY = "_ipl_stage_cat"
    # Serving
    REQUEST_ID = "request_id"
    BATCH_SIZE = "batch_size"
    BATCHING_TASK_SIZE = "batching_input_task_size"
    CPU_BUDGET = "cpu_budget"
    # Devices
    KERNEL_DETAILS = "kernel_details"
    CORRELATION = "correlation"
    STREAM = "stream"
    WAIT_ON_STREAM = "wait_on_stream"
    WAIT_ON_RECORD = "wait_on_cuda_event_record_corr_id"
    COLLECTIVE_NAME = "Collective name"
    COLLECTIVE_DTYPE = "dtype"
    IN_ELEMENTS = "In msg nelems"
    OUT_ELEMENTS = "Out msg nelems"
    GROUP_SIZE = "Group size"
    PROCESS_GROUP_NAME = "Process Group Name"
    PROCESS_GROUP_RANKS = "Process Group Ranks"
