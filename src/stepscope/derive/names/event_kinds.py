"""`event_kinds`: the kind of an event, as far as its type alone shows it.

Each type is classified once. If the producer records whether a type is an op, its
record is used; patterns of names decide everything else. Facts that depend on more than
the type (the thread, enclosed events, values) are decided by later derivations.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl

from stepscope.derive.names.start_up import COMPILERS
from stepscope.derive.names.system_calls import SYSTEM_CALLS
from stepscope.frozen import Frozen
from stepscope.patterns import (
    COLLECTIONS,
    NAMED_INPUT,
    RECORDERS_COLLECTION,
    ascii_only,
)
from stepscope.xspace.op_links import BOOKKEEPING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepscope.array_types import Bools, UInt8s


class OpCategory(IntEnum):
    """The framework or kind of op to which an event's name belongs.

    `OTHER` is an op according to its producer, but its name has no known form.

    Definition: docs/definitions/names-and-events.md#names-of-ops.
    """

    UNKNOWN = 0
    TENSORFLOW = 1
    DATASET = 2
    JAX = 3
    TORCH = 4
    MEMCPY_H2D = 5
    MEMCPY_D2H = 6
    MEMCPY_D2D = 7
    MEMCPY_H2H = 8
    MEMCPY_P2P = 9
    MEMCPY_OTHER = 10
    MEMSET = 11
    OTHER = 12


class HostClass(IntEnum):
    """What a host event does, as far as its name shows it.

    `OP`, `EXECUTOR`, `DATASET`, `EXECUTABLE` and `DISPATCH` become launch, host
    compute, input wait or nothing once it is known what they enclose and where they
    ran. `BLOCKING` is a call that mostly waits for other threads that work for it.
    `PROFILER` is work of the profiler itself, `OUTPUT` writes checkpoints or summaries,
    `GARBAGE` is a garbage collection. `READ_BACK` returns a device's result to the
    program, which waits for it. `API` is any other call of a device's runtime:
    launches, allocations, queries. `SYSTEM_WAIT`, `FILE_READ` and `SYSTEM_CALL` are
    calls of the operating system's libraries.

    Definition: docs/definitions/host-time.md#classes.
    """

    NONE = 0
    INPUT_WAIT = 1
    COMPILE = 2
    LAUNCH = 3
    HOST_COMPUTE = 4
    SYNC = 5
    PYTHON = 6
    OP = 7
    EXECUTOR = 8
    DATASET = 9
    EXECUTABLE = 10
    DISPATCH = 11
    BLOCKING = 12
    PROFILER = 13
    OUTPUT = 14
    GARBAGE = 15
    READ_BACK = 16
    API = 17
    SYSTEM_WAIT = 18
    FILE_READ = 19
    SYSTEM_CALL = 20


#: Classes of calls of the operating system's libraries.
SYSTEM_CLASSES: Final = tuple(HostClass[name] for name in SYSTEM_CALLS)


class EventFlag(IntFlag):
    """Facts about an event's name that several derivations use."""

    FUNCTION_CALL = 1  # calls a graph function; has no separate class
    CONTROL_FLOW = 2  # While, If, Case; has no separate class
    EAGER_WRAPPER = 4  # encloses an eager op and repeats its time
    EAGER_OP = 8  # one eager op, named by its type
    DATASET = 16  # an iterator of an input pipeline
    CONSUMER_WAIT = 32  # requests the next element of an input pipeline
    PRODUCER = 64  # hands elements from one pipeline thread to another
    ALLOCATOR = 128  # memory allocated or freed
    THREADPOOL = 256  # bookkeeping of a thread pool
    END_THUNK = 512  # marks the end of another event
    PYTHON_FRAME = 1024  # a function from a tracer or samples
    EXECUTOR = 2048  # work of the graph executor
    CAPTURED_FUNCTION = 4096  # a function that an input pipeline runs
    FUNCTION_RUN = 8192  # FunctionRun, SessionRun, RunGraph
    LOOP_OP = 16384  # iterations of a loop inside a graph
    EXECUTABLE = 32768  # runs a compiled program
    PJIT = 65536  # a call of a compiled function from Python
    PROFILER_STEP = 131072  # a step range with its number in its name
    TRACE_CONTEXT = 262144  # a root event without a level
    SERVING = 524288  # serves a request or a batch of requests
    USER_INPUT = 1048576  # a range that the user named as fetching input
    POOL_RECORD = 2097152  # hands a task to a thread pool
    POOL_START = 4194304  # a thread of the pool begins a task
    POOL_STOP = 8388608  # a thread of the pool ends a task
    ANNOTATION = 16777216  # a range that the program or a library in it may have named
    LIBRARY_RANGE = 33554432  # a range that a framework puts around its own work
    CHORE = 67108864  # a range named as a callback, a metric, an evaluation or a log
    MODULE_CALL = 134217728  # one call of a part of a model
    OPTIMIZER = 268435456  # updates weights: a range, an op or a kernel
    READ_BACK = 536870912  # returns one value of a tensor to the program
    ENGINE_ITERATION = 1073741824  # one run of the model in a serving engine
    # Communicates with other processes; waits for them if it launches nothing.
    COLLECTIVE = 2147483648


#: Pattern of Python frames, used for both a class and a flag.
_PYTHON_FRAME: Final = r"^\$|^[^()]*\.py\(\d+\): |^<built-in |^nn\.Module: "
_GRAPH_EXECUTOR: Final = r"^ExecutorState::Process"
_ITERATOR: Final = r"^Iterator::|^Iterator$"
_FUNCTION_RUN: Final = r"^(?:FunctionRun|SessionRun|RunGraph)$"
_COMPILED_CALL: Final = r"^PjitFunction\("
#: Pattern of calls with which a consumer requests an element of an input pipeline.
_NEXT_ELEMENT: Final = (
    r"^(?:EagerLocalExecute: )?(?:MultiDevice)?IteratorGetNext"
    r"|:(?:MultiDevice)?IteratorGetNext[A-Za-z0-9]*$"
    r"|^enumerate\(DataLoader\)#.*__next__"
)
_RUNS_EXECUTABLE: Final = (
    r"(?:PjRt|TfrtCpu)[A-Za-z0-9_]*Execut[A-Za-z0-9_]*::[A-Za-z0-9_]*Execute"
    r"|^PJRT_LoadedExecutable_Execute$"
    r"|^(?:Cpu|Gpu)Executable::Execute|^Thunk|^XlaModule:"
)

#: Class → pattern of names; the first that matches decides. (?i) if spellings vary.
_CLASS_RULES: Final[dict[HostClass, str]] = {
    HostClass.PROFILER: (
        r"^Activity Buffer Request$|^(?:Activity )?Buffer Flush$|^Instrumentation$"
        rf"|^{RECORDERS_COLLECTION}$"
        r"|^(?:cuda|cupti|cu|roctracer|hip)\w*Profiler(?:Start|Stop)$"
        r"|^\$profiler(?:_v2)?\.py:\d+ (?:start|stop)(?:_trace)?$"
        r"|profiler/profiler\.py\(\d+\): (?:start|stop)_trace$"
        r"|^\$tensorflow\.python\.profiler\.internal\._pywrap_profiler "
    ),
    HostClass.GARBAGE: rf"^(?:{'|'.join(COLLECTIONS)})$|CollectGarbage$"
    r"|^\$__init__\.py:\d+ _xla_gc_callback$",
    HostClass.OUTPUT: (
        r"(?i)^(?:save_?)?checkpoint(?:ing)?$|^save_(?:checkpoint|model|state)$"
        r"|:(?:Save|SaveV2|SaveSlices|MergeV2Checkpoints|FlushSummaryWriter"
        r"|Write\w*Summary)$|^Eager(?:Local)?Execute: (?:SaveV2|SaveSlices"
        r"|MergeV2Checkpoints|FlushSummaryWriter|Write\w*Summary)$"
        r"|torch/serialization\.py\(\d+\): save$"
    ),
    HostClass.PYTHON: _PYTHON_FRAME,
    HostClass.INPUT_WAIT: (
        rf"{_NEXT_ELEMENT}|^EagerExecute: (?:MultiDevice)?IteratorGetNext"
        r"|^InfeedEnqueue|:InfeedEnqueue[A-Za-z0-9]*$"
    ),
    HostClass.COMPILE: (
        r"XlaCompile|XlaPass|XlaAutotuner|XlaCreateGpuExecutable|XlaBufferAssignment"
        r"|XlaCompilationCache|backend_compile|compile_or_get_cached"
        r"|PyClient::Compile|LoadedExecutable.*Compile|TraceFunction"
        r"|dynamo_timed|compile_fx|(?i:(?:dynamo|inductor|triton)\w*[ ._:]*compil)"
        r"|^(?:cu|hip|cuda)(?:Module|Library)Load|^compilation of "
        r"|^(?:Runtime Triggered Module|Lazy Function) Loading$"
        r"|^tf\.function-graph_building$|^trace_to_jaxpr|^lower_\w+_computation$"
        rf"|{COMPILERS}"
    ),
    HostClass.SYNC: r"^(?:cu|cuda|hip)[A-Za-z]*Synchronize|^(?:cu|cuda|hip)EventQuery"
    r"|^(?:BlockUntilReady|BlockHostUntilReady)|Buffer::Await$"
    r"|\(wait for completion\)$",
    HostClass.API: r"^(?:cu|cuda|hip)[A-Z]\w*$",
    HostClass.READ_BACK: r"^np\.asarray\(jax\.Array\)$",
    HostClass.EXECUTOR: _GRAPH_EXECUTOR,
    HostClass.DATASET: _ITERATOR,
    HostClass.EXECUTABLE: _RUNS_EXECUTABLE,
    HostClass.DISPATCH: (
        r"^Eager(?:Local|Kernel)?Execute(?:$|: __)|^EagerCopyToDevice|^TFE_"
        r"|^ValidateInputTypeAndPlacement$|^tf\.constant$|^convert_to_tensor$"
        rf"|{_COMPILED_CALL}|^ParseArguments$|^DevicePut$"
    ),
    HostClass.BLOCKING: rf"{_FUNCTION_RUN}|^KernelAndDeviceFunc::Run$"
    r"|^Wait for LaunchOnDevice completion$",
}

#: Flag → pattern; a name has the flags of all patterns that match it.
_FLAG_RULES: Final[dict[EventFlag, str]] = {
    EventFlag.FUNCTION_CALL: (
        r"^(?:EagerLocalExecute: )?__(?:inference|forward|backward)_"
        r"|:(?:__(?:inference|forward|backward)_\w*|(?:Stateful)?PartitionedCall|RemoteCall)$"
    ),
    EventFlag.CONTROL_FLOW: (
        r":_?(?:Stateless)?(?:While|If|Case)$|:(?:ParallelFor|For)$"
    ),
    EventFlag.EAGER_WRAPPER: (
        r"^EagerExecute|^EagerKernelExecute|^KernelAndDeviceFunc::Run"
    ),
    EventFlag.EAGER_OP: r"^EagerLocalExecute: [^_]|^EagerLocalExecute: _[A-Z]",
    EventFlag.DATASET: _ITERATOR,
    EventFlag.CONSUMER_WAIT: _NEXT_ELEMENT,
    EventFlag.PRODUCER: (
        r"^(?:Prefetch|ParallelInterleave|ParallelMap|MapAndBatch|ParseExample"
        r"|ParallelBatch)(?:Produce|Consume)$|^ParallelInterleaveInitializeInput"
    ),
    EventFlag.ALLOCATOR: r"^Memory(?:Allocation|Deallocation)$",
    EventFlag.THREADPOOL: r"^ThreadpoolListener::",
    EventFlag.POOL_RECORD: r"^ThreadpoolListener::Record$",
    EventFlag.POOL_START: r"^ThreadpoolListener::StartRegion$",
    EventFlag.POOL_STOP: r"^ThreadpoolListener::StopRegion$",
    EventFlag.END_THUNK: r"^end: ",
    EventFlag.PYTHON_FRAME: _PYTHON_FRAME,
    EventFlag.EXECUTOR: _GRAPH_EXECUTOR,
    EventFlag.CHORE: (
        r"(?i)\b(?:callbacks?|metrics?|evaluat(?:e|ion)|validat(?:e|ion)|logging"
        r"|on_(?:train|test|epoch|batch)_\w+)\b"
    ),
    EventFlag.CAPTURED_FUNCTION: r"^InstantiatedCapturedFunction::Run",
    EventFlag.FUNCTION_RUN: _FUNCTION_RUN,
    EventFlag.LOOP_OP: (
        r"^(?:ParallelForOp|ForeverOp|ForOp|WhileOp-EvalCond|WhileOp-StartBody)$"
    ),
    EventFlag.EXECUTABLE: _RUNS_EXECUTABLE,
    EventFlag.PJIT: _COMPILED_CALL,
    EventFlag.PROFILER_STEP: r"^ProfilerStep#\d+",
    EventFlag.TRACE_CONTEXT: r"^TraceContext$",
    EventFlag.SERVING: (
        r"^(?:BatchingSessionRun|ProcessBatch|TfrtModelRun|ServingModelRun)$"
    ),
    EventFlag.COLLECTIVE: (
        # Communication libraries called by PyTorch or directly by a Python program.
        r"^(?:gloo|mpi|ucc|c10d|_c10d_functional|horovod|smddp):"
        r"|^(?:MPI_|Horovod|HOROVOD_|smddp)"
        r"|^record_param_comms$"
        # Ops of TensorFlow and of XLA on CPUs, and the waits of their implementations.
        r"|:_?(?:Collective(?:Reduce|Gather|Bcast|Broadcast|AllToAll|Permute|Assign)\w*"
        r"|Nccl\w+|Horovod\w+)$"
        r"|^(?:EagerLocalExecute: )?Collective(?:Reduce|Gather|Bcast|AllToAll)\w*"
        r"|^(?:RingReduce|RingGather|RingAlltoall|HierarchicalTreeBroadcaster)\b"
        r"|^(?:all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute"
        r"|collective-broadcast|ragged-all-to-all)(?:-start|-done)?(?:\.\d+)?$"
        r"|^(?:AllReduce|AllGather|ReduceScatter|AllToAll|CollectivePermute)\w*Thunk"
        # Meeting of the devices of one process, which older releases of XLA record.
        r"|^Rendezvous$"
        # Functions recorded by the Python tracer, with file and line before the name.
        r"|distributed_c10d\.py\(\d+\): (?:all_|reduce|broadcast|barrier|gather|scatter"
        r"|send|recv|irecv|isend|wait)"
        r"|^\$?mpi4py|MPI\.Comm\.\w+"
    ),
    EventFlag.USER_INPUT: NAMED_INPUT,
    EventFlag.LIBRARY_RANGE: (
        r"^ProfilerStep#\d+|^Optimizer\.\w+#|^enumerate\(DataLoader\)#"
        r"|^(?:nccl|gloo|hccl|mpi|ucc|xccl):|^(?:Distributed)?DataParallel\."
        r"|^FullyShardedDataParallel\.|^FSDP::"
        r"|^Torch-Compiled Region|^## Call CompiledFxGraph |^CompiledFunction"
        r"|^autograd::|^Pregraph bytecode|^TORCHDYNAMO$|\(dynamo_timed\)$"
        r"|^graph_\d+_inductor_wrapper_call$|^record_param_comms$"
    ),
    EventFlag.MODULE_CALL: (
        r"^nn\.Module: |\.py\(\d+\): (?:forward|_call_impl|_wrapped_call_impl)$"
        r"|^\$\S+\.py:\d+ (?:forward|_call_impl|_wrapped_call_impl)$"
    ),
    EventFlag.OPTIMIZER: (
        r"(?i)optimizer[_.]?step|(?:resource|sparse)?apply_?(?:gradient|adam|momentum)"
        r"|apply_?(?:rmsprop|adagrad|ftrl)|assignsubvariableop"
        r"|_(?:fused|foreach)_(?:adam|sgd|lamb|adagrad)"
        r"|(?:fused|multi_?tensor)\w*(?:adam|sgd|lamb)|adamfunctor|sgdfunctor"
    ),
    EventFlag.READ_BACK: r"^aten::(?:item|_local_scalar_dense)$",
    EventFlag.ENGINE_ITERATION: (
        r"^execute_(?:context_\d+\S*_generation_\d|new_\d+_cached_\d)"
        r"|^gpu_model_runner: forward$|_forward_step \d+: \d+ ctx reqs"
    ),
}

#: Pattern of ranges of runtimes on the program's own threads, outside of any call with
#: a known name. (Ranges inside such a call are never the program's.)
_RUNTIME_RANGE: Final = (
    # Functions of C and C++.
    r"::|^(?:cu|cuda|cudnn|cublas|hip|hsa|roc|nccl|rccl|pthread)[A-Z_]"
    # Ranges of JAX: annotated by its Python code, or by its runtime.
    r"|^Wait for \w+ holds$|^[HD]2[HD] (?:Copy|Dispatch)|^shard_args$|^DevicePut"
    r"|^ArrayImpl\.|^ExecuteReplicated\.|^lower_\w+_computation$|^trace_to_jaxpr"
    r"|^pickle_util\.|^batched_copy_array_|^cpp_pjit_"
    rf"|^tf\.function-graph_building$|^(?:{'|'.join(COLLECTIONS)})$"
)

_COPY_CATEGORIES: Final = (
    (OpCategory.MEMCPY_H2D, r"(?i)^memcpy(?:h2d|htod)"),
    (OpCategory.MEMCPY_D2H, r"(?i)^memcpy(?:d2h|dtoh)"),
    (OpCategory.MEMCPY_D2D, r"(?i)^memcpy(?:d2d|dtod)|^__amd_rocclr_copyBuffer"),
    (OpCategory.MEMCPY_H2H, r"(?i)^memcpy(?:h2h|htoh)"),
    (OpCategory.MEMCPY_P2P, r"(?i)^memcpy(?:p2p|ptop)"),
    (OpCategory.MEMCPY_OTHER, r"^MemcpyOther"),
    (OpCategory.MEMSET, r"(?i)^memset|^__amd_rocclr_fillBuffer"),
)
_TORCH_OP: Final = (
    r"^(?:aten|prim|prims|quantized|torch|torchvision|torch_\w+|fbgemm|xformers"
    r"|flash_attn|c10|c10d|_c10d_functional|autograd::engine)::"
    # Nodes of the graph of gradients.
    r"|^[A-Za-z]\w*Backward\d*$"
)
#: Pattern of names that have a colon but do not name an op.
_NOT_AN_OP: Final = (
    r"^NVTX:|^ThenExecuteCallback:|^XlaModule:|^XlaCompile:|^\$|^end: "
    r"|^(?:nccl|gloo|hccl|mpi|ucc|xccl):"
)
_EAGER_OP: Final = r"^EagerLocalExecute: (.+)$"


class EventKinds(Frozen, frozen=True):
    """One entry per row of `event_types`; arrays over types.

    Attributes:
        category: `OpCategory` codes, uint8; `UNKNOWN` if the type is not an op.
        op_name: Text; null if the type is not an op; for `DATASET`, the whole name.
        op_type: Text; null if the type is not an op.
    """

    category: UInt8s
    op_name: pl.Series
    op_type: pl.Series
    host_class: UInt8s
    flags: NDArray[np.uint32]

    def has(self, flag: EventFlag) -> Bools:
        """Return True for the types with at least one of the given flags."""
        chosen: Bools = (self.flags & np.uint32(int(flag))) != 0
        return chosen

    def is_op(self) -> Bools:
        """Return True for types whose name is an op of a framework and not a copy."""
        return _are_ops(self.category)


def _are_ops(category: UInt8s) -> Bools:
    is_op: Bools = (
        (category >= OpCategory.TENSORFLOW) & (category <= OpCategory.TORCH)
    ) | (category == OpCategory.OTHER)
    return is_op


_KIND_SCHEMA: Final = {
    "category": pl.UInt8,
    "op_name": pl.String,
    "op_type": pl.String,
    "host_class": pl.UInt8,
    "flags": pl.UInt32,
}
#: Rows of types → rows of kinds. Most types of a run's hosts are the same, and every
#: evaluation of all patterns compiles them again (5 ms).
_KNOWN_KINDS: Final[dict[tuple[object, ...], tuple[object, ...]]] = {}
#: Number of types above which the evaluation itself takes longer than that.
_MANY_TYPES: Final = 10_000


class OpNames(NamedTuple):
    """Ops parsed from names; the fields are those of `EventKinds`."""

    category: UInt8s
    op_name: pl.Series
    op_type: pl.Series


def event_kinds(*, event_types: pl.DataFrame) -> EventKinds:
    """Classify every event type.

    Definition: docs/definitions/names-and-events.md#names-of-host-events.
    """
    types = event_types["name", "op", "annotation"]
    if len(types) > _MANY_TYPES or len(_KNOWN_KINDS) > _MANY_TYPES:
        kinds = _classify_types(types)
    else:
        rows = types.rows()
        new = [row for row in dict.fromkeys(rows) if row not in _KNOWN_KINDS]
        if new:
            found = _classify_types(pl.DataFrame(new, types.schema, orient="row"))
            _KNOWN_KINDS.update(zip(new, found.rows(), strict=True))
        known = [_KNOWN_KINDS[row] for row in rows]
        kinds = pl.DataFrame(known, _KIND_SCHEMA, orient="row")
    category, op_name, op_type, *codes = kinds
    return EventKinds(
        category.to_numpy(), op_name, op_type, *map(pl.Series.to_numpy, codes)
    )


def _classify_types(event_types: pl.DataFrame) -> pl.DataFrame:
    """Return the fields of `EventKinds` of each type."""
    ops = _op_names(event_types)
    parsed = event_types.select(_flags_expression(), _host_class())
    host_class = parsed["host_class"].to_numpy().copy()
    flags: NDArray[np.uint32] = parsed["flags"].to_numpy()
    plain_op = (
        (host_class == HostClass.NONE)
        & _are_ops(ops.category)
        & (ops.category != OpCategory.DATASET)
        & ((flags & int(EventFlag.FUNCTION_CALL | EventFlag.CONTROL_FLOW)) == 0)
    )
    host_class[plain_op] = HostClass.OP
    # Add a flag to types that are, or may be, named ranges.
    known_flags = ~np.uint32(
        EventFlag.USER_INPUT
        | EventFlag.LIBRARY_RANGE
        | EventFlag.CHORE
        | EventFlag.OPTIMIZER
        | EventFlag.ENGINE_ITERATION
        | EventFlag.COLLECTIVE
    )
    unknown = (
        (ops.category == OpCategory.UNKNOWN)
        & np.isin(host_class, (HostClass.NONE, HostClass.OUTPUT))
        & ((flags & known_flags) == 0)
    )
    stated = event_types.select(
        marked=pl.col("annotation"),
        runtime=_name_matches(_RUNTIME_RANGE) | (pl.col("name") == ""),
    )
    may_be = pl.Series(unknown) & ~stated["runtime"]
    is_range = pl.select(pl.coalesce(stated["marked"], may_be)).to_series().to_numpy()
    flags = flags | np.where(is_range, np.uint32(EventFlag.ANNOTATION), np.uint32(0))
    named_input = (flags & int(EventFlag.USER_INPUT)) != 0
    host_class[named_input & (host_class == HostClass.NONE)] = HostClass.INPUT_WAIT
    return pl.DataFrame([*ops, host_class, flags], _KIND_SCHEMA)


def op_names(names: pl.Series) -> OpNames:
    """Parse texts as event names, as if their producer did not record their kind."""
    unknown = pl.lit(None, pl.Boolean)
    return _op_names(names.alias("name").to_frame().with_columns(op=unknown))


def _op_names(names: pl.DataFrame) -> OpNames:
    # Split once, at the first colon; without a colon `right` is null.
    parts = pl.col("name").str.splitn(":", 2).struct.rename_fields(["left", "right"])
    split = names.with_columns(parts=parts).unnest("parts")
    parsed = split.select(_category_expression(), *_op_texts())
    category = parsed["category"].to_numpy()
    is_op = pl.Series(_are_ops(category))
    # A name that has no known form has no parts.
    unsplit = pl.Series(category == OpCategory.OTHER)
    texts = parsed.select(
        pl.when(is_op)
        .then(pl.when(unsplit).then(names["name"]).otherwise(pl.col(text)))
        .alias(text)
        for text in ("op_name", "op_type")
    )
    return OpNames(category, texts["op_name"], texts["op_type"])


@cache
def _category_expression() -> pl.Expr:
    """Return the category of the first rule that matches; copies come before ops.

    If the producer records whether a type is an op, this overrides the rules for ops.

    Definition: docs/definitions/names-and-events.md#names-of-ops.
    """
    name, left, right = pl.col("name"), pl.col("left"), pl.col("right")
    has_colon = right.is_not_null()
    rules = [
        *((_name_matches(text), code) for code, text in _COPY_CATEGORIES),
        (~pl.col("op"), OpCategory.UNKNOWN),
        (name.is_in(sorted(BOOKKEEPING)), OpCategory.UNKNOWN),
        (name.str.contains(_EAGER_OP), OpCategory.TENSORFLOW),
        (_name_matches(_TORCH_OP), OpCategory.TORCH),
        (pl.col("op") & ~has_colon, OpCategory.OTHER),
        (~has_colon | name.str.contains(_NOT_AN_OP), OpCategory.UNKNOWN),
        (left == "Iterator", OpCategory.DATASET),
        (
            right.str.contains(r"^__(?:inference|forward|backward)_"),
            OpCategory.TENSORFLOW,
        ),
        (
            left.str.contains(r"^[A-Za-z0-9.][A-Za-z0-9_./>-]*$")
            & right.str.contains(r"^[A-Z_][a-zA-Z0-9_]*$"),
            OpCategory.TENSORFLOW,
        ),
        (_type_of_op().str.contains(r"^[a-z_][a-z0-9_]*(?:\[.*\])?$"), OpCategory.JAX),
        (right == "", OpCategory.TENSORFLOW),
        (pl.col("op"), OpCategory.OTHER),
    ]
    return _first_match(rules).alias("category")


def _type_of_op() -> pl.Expr:
    """Return the right part, or else the left part's last segment without `_<int>`."""
    left, right = pl.col("left"), pl.col("right")
    derived = left.str.extract(r"([^/]*)$").str.replace(r"_\d+$", "")
    return pl.when(right == "").then(derived).otherwise(right)


def _name_matches(pattern: str) -> pl.Expr:
    return pl.col("name").str.contains(ascii_only(pattern))


def _first_match(rules: Sequence[tuple[pl.Expr, int]]) -> pl.Expr:
    """Return the code of the first condition that is true, else 0."""
    codes = [pl.when(test).then(pl.lit(int(code), pl.UInt8)) for test, code in rules]
    return pl.coalesce(*codes, pl.lit(0, pl.UInt8))


@cache
def _op_texts() -> tuple[pl.Expr, pl.Expr]:
    name, left = pl.col("name"), pl.col("left")
    eager = name.str.extract(_EAGER_OP)
    is_torch = _name_matches(_TORCH_OP)
    dataset = left == "Iterator"
    op_type = (
        pl.when(eager.is_not_null())
        .then(eager)
        .when(is_torch)
        .then(name)
        .when(dataset)
        .then(pl.lit("Dataset"))
        .otherwise(_type_of_op().str.replace(r"^([a-z_][a-z0-9_]*)\[.*\]$", "$1"))
    )
    op_name = (
        pl.when(eager.is_not_null())
        .then(eager)
        .when(is_torch | dataset)
        .then(name)
        .otherwise(left)
    )
    return op_name.alias("op_name"), op_type.alias("op_type")


@cache
def _host_class() -> pl.Expr:
    rules = [(_name_matches(pattern), code) for code, pattern in _CLASS_RULES.items()]
    neither = ~pl.any_horizontal(pl.col("op", "annotation").cast(pl.Boolean))
    rules += [
        (neither & _name_matches(text), HostClass[name])
        for name, text in SYSTEM_CALLS.items()
    ]
    return _first_match(rules).alias("host_class")


@cache
def _flags_expression() -> pl.Expr:
    bits = [
        _name_matches(pattern).cast(pl.UInt32) * int(flag)
        for flag, pattern in _FLAG_RULES.items()
    ]
    return pl.sum_horizontal(bits).cast(pl.UInt32).alias("flags")
