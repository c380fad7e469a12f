"""What an event is, as far as its name says."""

from __future__ import annotations

import polars as pl
import pytest

from stepscope.derive.names import event_kinds as module
from stepscope.derive.names.event_kinds import (
    EventFlag,
    EventKinds,
    HostClass,
    OpCategory,
    event_kinds,
)


def kinds_of(*names: str) -> EventKinds:
    # A null says that the producer does not tell ops from other events.
    types = pl.DataFrame(
        {"name": names, "op": [None] * len(names), "annotation": [None] * len(names)},
        schema={"name": pl.String, "op": pl.Boolean, "annotation": pl.Boolean},
    )
    return event_kinds(event_types=types)


@pytest.mark.parametrize(
    ("name", "category", "op", "op_type"),
    [
        (
            "model/dense/MatMul:MatMul",
            OpCategory.TENSORFLOW,
            "model/dense/MatMul",
            "MatMul",
        ),
        (
            "Iterator::Root::Prefetch",
            OpCategory.DATASET,
            "Iterator::Root::Prefetch",
            "Dataset",
        ),
        ("jit(f)/dot:dot_general[a=1]", OpCategory.JAX, "jit(f)/dot", "dot_general"),
        ("jit(f)/transpose_12:", OpCategory.JAX, "jit(f)/transpose_12", "transpose"),
        ("scope/Conv2D_3:", OpCategory.TENSORFLOW, "scope/Conv2D_3", "Conv2D"),
        ("EagerLocalExecute: MatMul", OpCategory.TENSORFLOW, "MatMul", "MatMul"),
        ("aten::mm", OpCategory.TORCH, "aten::mm", "aten::mm"),
        ("f:__inference_f_1", OpCategory.TENSORFLOW, "f", "__inference_f_1"),
    ],
)
def test_an_op_is_read_from_its_name(
    name: str, category: OpCategory, op: str, op_type: str
) -> None:
    kinds = kinds_of(name)
    assert (kinds.category[0], kinds.op_name[0], kinds.op_type[0]) == (
        category,
        op,
        op_type,
    )


@pytest.mark.parametrize(
    "name",
    [
        "volta_sgemm_128x64_nt",
        "cudnn::gemm::computeOffsetsKernel(x)",
        "void tensorflow::functor::ApplyAdamKernel<float>(int, float*",
        "DecodeImageV2Op::JPEG",
        "end: fusion.1",
        "$file.py:12 next",
        "NVTX:text",
        "ThenExecuteCallback:GetEventForComputeStreamSyncPoint",
        "XlaModule:",
        "jit_dot:XLA GPU module",
        "",
    ],
)
def test_what_only_looks_like_an_op_is_none(name: str) -> None:
    kinds = kinds_of(name)
    assert kinds.category[0] == OpCategory.UNKNOWN
    assert kinds.op_name[0] is None
    assert not kinds.is_op()[0]


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("MEMCPYHtoD", OpCategory.MEMCPY_H2D),
        ("MemcpyD2H", OpCategory.MEMCPY_D2H),
        ("MemcpyP2P", OpCategory.MEMCPY_P2P),
        ("Memset 4", OpCategory.MEMSET),
        ("__amd_rocclr_fillBufferAligned", OpCategory.MEMSET),
    ],
)
def test_copies_are_no_ops_of_the_program(name: str, category: OpCategory) -> None:
    kinds = kinds_of(name)
    assert kinds.category[0] == category
    assert not kinds.is_op()[0]


@pytest.mark.parametrize(
    ("name", "host_class"),
    [
        ("IteratorGetNextOp::DoCompute", HostClass.INPUT_WAIT),
        ("EagerLocalExecute: IteratorGetNextAsOptional", HostClass.INPUT_WAIT),
        ("x/IteratorGetNext:IteratorGetNext", HostClass.INPUT_WAIT),
        ("enumerate(DataLoader)#_Single.__next__", HostClass.INPUT_WAIT),
        ("load_batch", HostClass.INPUT_WAIT),
        ("XlaCompileBackend", HostClass.COMPILE),
        ("cuModuleLoadData", HostClass.COMPILE),
        ("cudaMalloc", HostClass.API),
        ("cudaMalloc_v3020", HostClass.API),
        ("hipLaunchKernel", HostClass.API),
        ("cudaProfilerStop", HostClass.PROFILER),
        ("garbage collection of the recorder", HostClass.PROFILER),
        ("cudaesque", HostClass.NONE),
        ("PyLoadedExecutable::Compile", HostClass.COMPILE),
        ("cudaStreamSynchronize", HostClass.SYNC),
        ("np.asarray(jax.Array)", HostClass.READ_BACK),
        ("ExecutorState::Process", HostClass.EXECUTOR),
        ("Iterator::Root", HostClass.DATASET),
        ("PjRtCpuExecutable::Execute", HostClass.EXECUTABLE),
        ("EagerKernelExecute", HostClass.DISPATCH),
        ("FunctionRun", HostClass.BLOCKING),
        ("a/MatMul:MatMul", HostClass.OP),
        ("$train.py:3 step", HostClass.PYTHON),
        ("f:PartitionedCall", HostClass.NONE),
        ("x/while:While", HostClass.NONE),
        ("EagerLocalExecute: __inference_step_7", HostClass.DISPATCH),
        ("train", HostClass.NONE),
        ("my annotation", HostClass.NONE),
    ],
)
def test_the_class_of_a_host_event_by_its_name(
    name: str, host_class: HostClass
) -> None:
    assert kinds_of(name).host_class[0] == host_class


def test_flags_may_be_several() -> None:
    kinds = kinds_of("EagerLocalExecute: IteratorGetNext", "Iterator::Map", "end: dot")
    assert EventFlag(int(kinds.flags[0])) == (
        EventFlag.EAGER_OP | EventFlag.CONSUMER_WAIT
    )
    assert kinds.has(EventFlag.DATASET | EventFlag.END_THUNK).tolist() == [
        False,
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("name", "op", "category", "op_name"),
    [
        ("detach", True, OpCategory.OTHER, "detach"),
        ("lib: run", True, OpCategory.OTHER, "lib: run"),
        ("aten::mm", True, OpCategory.TORCH, "aten::mm"),
        ("m/MatMul:MatMul", True, OpCategory.TENSORFLOW, "m/MatMul"),
        ("aten::mm", False, OpCategory.UNKNOWN, None),
        ("m/MatMul:MatMul", False, OpCategory.UNKNOWN, None),
        ("MemcpyH2D", False, OpCategory.MEMCPY_H2D, None),
        ("detach", None, OpCategory.UNKNOWN, None),
        ("aten::mm", None, OpCategory.TORCH, "aten::mm"),
    ],
)
def test_the_word_of_the_producer_goes_before_the_name(
    name: str,
    op: bool | None,  # noqa: FBT001 - a parameter of the test's cases
    category: OpCategory,
    op_name: str | None,
) -> None:
    types = pl.DataFrame(
        {"name": [name], "op": [op], "annotation": [None]},
        schema={"name": pl.String, "op": pl.Boolean, "annotation": pl.Boolean},
    )
    kinds = event_kinds(event_types=types)
    assert (kinds.category[0], kinds.op_name[0]) == (category, op_name)
    assert kinds.op_type.is_null()[0] == (op_name is None)
    assert kinds.is_op()[0] == (op_name is not None)
    is_host_op = kinds.host_class[0] == HostClass.OP
    assert is_host_op == (op_name is not None)


@pytest.mark.parametrize(
    ("name", "waits"),
    [
        ("gloo:all_reduce", True),
        ("c10d::allreduce_", True),
        ("_c10d_functional::all_reduce", True),
        ("CollectiveReduceV2:CollectiveReduceV2", True),
        ("model/AllReduce:CollectiveGatherV2", True),
        ("MPI_Allreduce", True),
        ("HorovodAllreduce", True),
        ("all-reduce.3", True),
        ("all-gather-start", True),
        ("torch/distributed/distributed_c10d.py(2501): all_reduce", True),
        # What launches onto a device waits there, not on the host.
        ("nccl:all_reduce", False),
        ("aten::gather", False),
        ("model/MatMul:MatMul", False),
        ("all-reduce-scatter-fusion", False),
        ("record_param_comms", True),
    ],
)
def test_what_communicates_is_marked(name: str, *, waits: bool) -> None:
    assert kinds_of(name).has(EventFlag.COLLECTIVE)[0] == waits


def test_a_record_about_a_collective_is_no_op_whatever_its_producer_says() -> None:
    names = ["record_param_comms", "c10d::x"]
    types = pl.DataFrame({"name": names, "op": [True] * 2, "annotation": [None] * 2})
    kinds = event_kinds(event_types=types)
    assert kinds.is_op().tolist() == [False, True]


@pytest.mark.parametrize("most", [10_000, 0])
def test_kinds_are_those_of_the_types_whichever_were_met_before(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MANY_TYPES", most)
    monkeypatch.setattr(module, "_KNOWN_KINDS", {})
    kinds_of("aten::add", "cudaLaunchKernel")
    found = kinds_of("Iterator::Root::Prefetch", "cudaLaunchKernel", "aten::mm")
    assert found.category.tolist() == [OpCategory.DATASET, 0, OpCategory.TORCH]
    assert found.op_type.to_list() == ["Dataset", None, "aten::mm"]
    assert found.host_class[1] == HostClass.API
    assert found.has(EventFlag.COLLECTIVE).tolist() == [False] * 3
    assert len(module._KNOWN_KINDS) == (4 if most else 0)


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("anything of the program", EventFlag(0)),
        ("validate", EventFlag.CHORE),
        ("ProfilerStep#3", EventFlag.LIBRARY_RANGE | EventFlag.PROFILER_STEP),
        ("Torch-Compiled Region", EventFlag.LIBRARY_RANGE),
        ("optimizer_step", EventFlag.OPTIMIZER),
        ("gpu_model_runner: forward", EventFlag.ENGINE_ITERATION),
        ("MPI_Allreduce", EventFlag.COLLECTIVE),
        ("load_batch", EventFlag.USER_INPUT),
        ("TraceContext", EventFlag.TRACE_CONTEXT),
        ("ForOp", EventFlag.LOOP_OP),
        ("ProcessBatch", EventFlag.SERVING),
        ("PrefetchProduce", EventFlag.PRODUCER),
    ],
)
def test_a_range_may_be_the_programs_unless_a_runtime_is_known_to_write_it(
    name: str, flags: EventFlag
) -> None:
    may_be = (
        EventFlag.USER_INPUT
        | EventFlag.LIBRARY_RANGE
        | EventFlag.CHORE
        | EventFlag.OPTIMIZER
        | EventFlag.ENGINE_ITERATION
        | EventFlag.COLLECTIVE
    )
    kinds = kinds_of(name)
    mark = EventFlag.ANNOTATION if not flags & ~may_be else EventFlag(0)
    assert int(kinds.flags[0]) == int(flags | mark)
    named_input = flags == EventFlag.USER_INPUT
    expected = HostClass.INPUT_WAIT if named_input else HostClass.NONE
    assert kinds.host_class[0] == expected


@pytest.mark.parametrize(
    ("name", "marked", "flagged"),
    [
        ("f", None, True),
        ("", None, False),
        ("xla::Run", None, False),
        ("shard_args", None, False),
        ("f", False, False),
        ("aten::mm", True, True),
        ("aten::mm", None, False),
        ("save_checkpoint", None, True),
        ("cudaLaunchKernel", None, False),
    ],
)
def test_the_producer_says_which_ranges_the_program_named(
    name: str, *, marked: bool | None, flagged: bool
) -> None:
    types = pl.DataFrame(
        {"name": [name], "op": [None], "annotation": [marked]},
        schema={"name": pl.String, "op": pl.Boolean, "annotation": pl.Boolean},
    )
    kinds = event_kinds(event_types=types)
    assert kinds.has(EventFlag.ANNOTATION).tolist() == [flagged]
