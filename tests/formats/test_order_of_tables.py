"""What a table holds, and what its handles stand for, never depends on the order.

Texts that stand in place, annotations that are cut and arguments that are read late
have once been numbered when a table was made: who asked first got other handles.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from tests.support.traces.kineto import call, complete, kernel
from tests.support.xspace.literal import Ref, event, line, plane, space

from stepscope.formats.opening import read
from stepscope.trace.tables import TABLES
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.trace.model import TraceData

DATA = Path(__file__).parents[1] / "data"
RECORDED = [
    DATA / name
    for name in (
        "gpu/check_jax/own.xplane.pb.gz",
        "gpu/check_torch/own.pt.trace.json.gz",
        "tf_keras_fit/plugins/profile/2026_11_20_11_32_52/localhost.xplane.pb.gz",
        "torch_train/localhost.1795295456077789809.pt.trace.json.gz",
    )
]
HANDLES = ("op", "hlo_op", "hlo_module", "shape", "equation")
LONG = "n" * 20_000


def xplane(folder: Path) -> Path:
    """A GPU, a TPU core and a host whose texts stand in place."""
    gpu = line(
        7, "Stream #7(Compute)",
        event("k", 0, 10, {"kernel_details": "regs:1", "hlo_op": "fusion.1"}),
        event("k", 20, 10, {"annotation": Ref("train#n=1#::mul#x#"), "shape": LONG}),
        event("k", 40, 10, {"annotation": "eval#n=1#::add", "hlo_module": "jit_f"}),
        event("MemcpyH2D", 60, 5, {"memcpy_details": "size:8 dest:0 async:1"}),
    )  # fmt: skip
    core = line(
        3, "XLA Ops",
        event("%dot.1", 0, 10, {"program_id": 5, "tf_op": "jit(f)/dot:"}),
    )  # fmt: skip
    host = line(
        1, "main",
        event("MemoryAllocation", 0, 0, {
            "bytes_allocated": 8, "allocator_name": "GPU_0_bfc", "tf_op": "dense",
        }),
        event("cuLaunchKernel", 2, 1, {"correlation_id": 4}),
    )  # fmt: skip
    path = folder / "vm.xplane.pb"
    path.write_bytes(
        space(
            plane("/device:GPU:0", gpu),
            plane("/device:TPU:0", core),
            plane("/host:CPU", host),
            plane("/host:metadata", line(1, "programs", event("jit_g(5)", 0, 1))),
        )
    )
    return path


def kineto(folder: Path) -> Path:
    """A kernel of an operator with shapes, and a text too long to be shown."""
    shapes = {"Input Dims": [[8, 4]], "Input type": ["float"], "Note": LONG}
    events = [
        complete("aten::mm", 0, 50, args={"External id": 2, **shapes}),
        complete("aten::add", 60, 5, args={"External id": 3, "Note": "aten::mm"}),
        call("cudaLaunchKernel", 10, 5, correlation=7, **{"External id": 2}),
        kernel("sgemm", 30, 5, correlation=7),
    ]
    path = folder / "worker0.pt.trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


def in_order(path: Path, names: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Every table, asked for in this order, and then the texts."""
    trace = read(path)
    return {name: trace.table(name) for name in names}, list(trace.strings)


def texts_first(path: Path) -> tuple[dict[str, Any], list[str]]:
    trace = read(path)
    strings = list(trace.strings)
    return {name: trace.table(name) for name in TABLES}, strings


def from_threads(path: Path) -> tuple[dict[str, Any], list[str]]:
    """Every table and the texts, asked for at once."""
    trace = read(path)
    with ThreadPoolExecutor(max_workers=len(TABLES) + 1) as pool:
        strings = pool.submit(lambda: list(trace.strings))
        tables = {name: pool.submit(trace.table, name) for name in reversed(TABLES)}
        return {name: it.result() for name, it in tables.items()}, strings.result()


def assert_equal(one: tuple[Any, list[str]], other: tuple[Any, list[str]]) -> None:
    assert one[1] == other[1]
    for name, table in one[0].items():
        if isinstance(table, Unavailable):
            assert other[0][name] == table, name
        else:
            assert table.equals(other[0][name]), name


def assert_order_does_not_matter(path: Path) -> None:
    expected = in_order(path, list(TABLES))
    for found in (
        in_order(path, list(reversed(TABLES))),
        texts_first(path),
        from_threads(path),
    ):
        assert_equal(expected, found)


@pytest.mark.parametrize("write", [xplane, kineto])
def test_tables_and_texts_are_the_same_in_any_order(write: Any, tmp_path: Path) -> None:
    assert_order_does_not_matter(write(tmp_path))


@pytest.mark.parametrize("path", RECORDED, ids=lambda it: str(it.relative_to(DATA)))
@pytest.mark.sweep(every=4)
def test_recorded_profiles_are_the_same_in_any_order(path: Path) -> None:
    assert_order_does_not_matter(path)


@pytest.mark.parametrize("write", [xplane, kineto])
def test_texts_cannot_be_added(write: Any, tmp_path: Path) -> None:
    trace: TraceData = read(write(tmp_path))
    known = list(trace.strings)
    assert not hasattr(trace.strings, "append")
    for name in TABLES:
        trace.table(name)
    assert list(trace.strings) == known
    assert len(trace.strings) == len(known)
    assert len(set(known)) == len(known)


def texts_of_activity(trace: TraceData) -> dict[str, list[str | None]]:
    frame = trace.table("device_activity")
    assert isinstance(frame, pl.DataFrame)
    return {
        column: [None if it is None else trace.strings[it] for it in frame[column]]
        for column in HANDLES
    }


def test_texts_in_place_and_cut_ones_have_handles_before_any_table(
    tmp_path: Path,
) -> None:
    trace = read(xplane(tmp_path))
    known = len(trace.strings)
    found = texts_of_activity(trace)
    assert found["op"] == [None, "train", "eval", None, "jit(f)/dot:"]
    assert found["hlo_op"] == ["fusion.1", None, None, None, None]
    assert found["hlo_module"] == [None, None, "jit_f", None, "jit_g"]
    assert found["shape"][1] == "n" * 16_384 + "… (20,000 characters)"
    assert len(trace.strings) == known


def test_the_texts_of_activities_are_known_before_arguments_are_read(
    tmp_path: Path,
) -> None:
    trace = read(kineto(tmp_path))
    found = texts_of_activity(trace)
    assert (found["op"], found["shape"]) == (["aten::mm"], ["float[8,4]"])
    # The text of an argument that is an operator's name, too, has its handle.
    frame = trace.table("stats")
    assert isinstance(frame, pl.DataFrame)
    note = frame.filter(pl.col("key") == trace.strings.index("Note"))
    assert trace.strings.index("aten::mm") in note["value"].to_list()
