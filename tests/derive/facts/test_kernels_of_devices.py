"""Kernels of literal devices: groups, fill, traits and roofs, worked out by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from tests.support.traces.literal import (
    ABSENT,
    OTHER,
    activities,
    fields_of,
    types_named,
    windows_at,
)

from stepscope.derive.device.kernels import Kernels
from stepscope.derive.facts.devices.device_fill import (
    DeviceFill,
    Unfilled,
    compiled_percent,
    fill_signals,
)
from stepscope.derive.facts.devices.kernel_kinds import fusable_runs, kernel_traits
from stepscope.derive.facts.devices.kernel_limits import measured_work, op_roofs
from stepscope.derive.facts.devices.small_work import WorkGroup, small_kernels
from stepscope.derive.verdicts.recorded_devices import NO_KERNELS
from stepscope.unavailable import Unavailable

# --- groups of kernels by op type ---


def kernels_named(*rows: tuple[Any, ...]) -> Kernels:
    columns = ("device", "class", "kernel_name", "op_name", "count", "total_ps")
    table = pl.DataFrame(
        rows,
        schema={
            **dict.fromkeys(columns[:2], pl.Int32),
            **dict.fromkeys(columns[2:4], pl.String),
            **dict.fromkeys(columns[4:], pl.Int64),
        },
        orient="row",
    )
    return Kernels(table, None)


SMALL = kernels_named(
    (0, 0, "k1", "a/MatMul", 4, 400),
    (0, 1, "void k2<float>(int)", "", 10, 100),
    (0, 2, "k3", "b/MatMul", 4, 200),
    (0, 3, "k4", "c/Other", 2, 300),
    (0, 4, "k5", None, 0, 0),
    (1, 5, "MatMul", "a/MatMul", 5, 0),
)
TYPES = SimpleNamespace(
    rows=pl.DataFrame(
        {
            "device": [0, 0, 0, 1, 0],
            "name": ["a/MatMul", "b/MatMul", "a/MatMul", "c/Other", "c/Other"],
            "type": ["MatMul", "MatMul", "Rarer", "Elsewhere", None],
        },
        schema_overrides={"device": pl.Int32},
    )
)


def test_kernels_are_grouped_by_the_type_of_their_op() -> None:
    """Of 20 kernels in two steps that take 1000 ps."""
    steps = windows_at((0, 1), (1, 2))
    found = small_kernels.function(kernels=SMALL, device_ops=TYPES, windows=steps)

    def group(name: str, count: int, time: int, **fields: Any) -> WorkGroup:
        return WorkGroup(
            **{
                "name": name,
                "short_name": name,
                "has_op": True,
                "per_step": count / 2,
                "mean_ps": time / count,
                "percent": time / 10,
                "count_percent": 5.0 * count,
                **fields,
            }
        )

    assert fields_of(found) == {
        0: (
            fields_of(group("MatMul", 8, 600, classes=(0, 2))),
            fields_of(group("c/Other", 2, 300, classes=(3,))),
            fields_of(
                group(
                    "void k2<float>(int)",
                    *(10, 100),
                    short_name="k2",
                    has_op=False,
                    classes=(1,),
                )
            ),
        ),
        # Kernels that last 0 ps by a coarse clock have no shares.
        1: (),
    }
    unknown = small_kernels.function(kernels=SMALL, device_ops=ABSENT, windows=steps)
    assert [each.name for each in unknown[0]] == [
        *("a/MatMul", "c/Other", "b/MatMul", "void k2<float>(int)"),
    ]


@pytest.mark.parametrize("windows", [ABSENT, windows_at((0, 9), has_steps=False)])
def test_without_steps_there_is_no_number_per_step(windows: Any) -> None:
    found = small_kernels.function(kernels=SMALL, device_ops=TYPES, windows=windows)
    assert found == {0: (), 1: ()}


# --- fill ---

DEVICES = pl.DataFrame(
    {
        "device": [0, 1, 2, 3],
        "cores": [100, 10, None, 8],
        "cc_major": [8, 8, 8, 1],
        "cc_minor": [0, 0, 0, 1],
    },
    schema_overrides={"device": pl.Int32},
)


def shaped(**columns: Any) -> dict[str, Any]:
    """A kernel of 10 blocks of 256 threads, which fills half of an A100's threads."""
    return {
        "device": 0,
        "class": 0,
        "kernel_name": "k",
        "op_name": "",
        "precision": "32",
        "total_ps": 1000,
        "grid_x": 10,
        "grid_y": 1,
        "grid_z": 1,
        "block_x": 64,
        "block_y": 2,
        "block_z": 2,
        "occupancy_percent": 50.0,
        **columns,
    }


def filled(*rows: dict[str, Any], **given: Any) -> Any:
    schema = {
        "device": pl.Int32,
        "class": pl.Int32,
        **dict.fromkeys(("kernel_name", "op_name", "precision"), pl.String),
        **dict.fromkeys(
            ("total_ps", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"),
            pl.Int64,
        ),
        "occupancy_percent": pl.Float64,
    }
    table = pl.DataFrame(list(rows), schema=schema)
    return fill_signals.function(
        **{
            "kernels": Kernels(table, None),
            "devices": DEVICES,
            "windows": windows_at((0, 1), (1, 2), (2, 3)),
            **given,
        }
    )


def test_every_field_of_how_kernels_fill_a_device() -> None:
    """An A100 holds 2048 threads in each of 100 multiprocessors: 4 blocks are half."""
    found = filled(
        shaped(**{"class": 1}),
        shaped(**{"class": 2, "total_ps": 500}),
        # 74 blocks are fewer than 75 % of 100, and 75 are not.
        shaped(**{"class": 3, "grid_x": 37, "grid_y": 2, "op_name": "op"}),
        shaped(**{"class": 4, "grid_x": 25, "grid_z": 3, "op_name": "full"}),
        # 480 of 400 slots are a last round of a fifth; 600 are one of a half.
        shaped(**{"class": 5, "grid_x": 480, "op_name": "ragged"}),
        shaped(**{"class": 6, "grid_x": 600, "op_name": "half"}),
        shaped(**{"class": 7, "grid_x": 1280, "op_name": "four rounds"}),
        shaped(**{"class": 8, "grid_x": 400, "op_name": "one round"}),
        shaped(**{"class": 9, "grid_x": 880, "op_name": "three"}),
        shaped(
            **{"class": 10, "grid_x": 400, "op_name": "ends", "occupancy_percent": None}
        ),
        shaped(**{"class": 11, "grid_x": None, "total_ps": 70}),
        # A collective computes nothing.
        shaped(**{"class": 12, "precision": None, "total_ps": 9_999}),
    )
    assert list(found) == [0]
    expected = DeviceFill(
        cores=100,
        kernel_ps=9_570,
        unshaped_ps=70,
        unfilled_ps=2_500,
        idle_ps=900 + 450 + 260,
        steps=3,
        largest=(
            Unfilled("k", 10, 1_500, 1_350, 10.0, 120.0),
            Unfilled("op", 74, 1_000, 260, 100 / 74, 1200 / 74),
        ),
        last_round_ps=2_000,
        # 1 - 1.2 / 2 and 1 - 2.2 / 3 of 1000 each.
        last_round_idle_ps=400 + 266,
        in_rounds=(
            Unfilled("ragged", 480, 1_000, 400, 100 / 480, 1200 / 480),
            Unfilled("three", 880, 1_000, 266, 100 / 880, 1200 / 880),
        ),
        classes=((0.9, (1, 2)), (0.26, (3,))),
    )
    assert fields_of(found[0]) == fields_of(expected)


def test_a_device_of_unknown_kind_has_no_known_rounds() -> None:
    found = filled(shaped(device=3, grid_x=4), shaped(device=2), windows=ABSENT)
    assert fields_of(found) == {
        3: fields_of(
            DeviceFill(
                cores=8,
                kernel_ps=1000,
                unshaped_ps=0,
                unfilled_ps=1000,
                idle_ps=500,
                steps=1,
                largest=(Unfilled("k", 4, 1000, 500, 2.0),),
                last_round_ps=None,
                classes=((0.5, (0,)),),
            )
        )
    }


def test_three_kernels_with_most_idle_time_are_named() -> None:
    rows = [
        shaped(kernel_name=name, total_ps=ps)
        for name, ps in zip("abcd", (1, 3, 2, 3), strict=True)
    ]
    largest = filled(*rows)[0].largest
    assert [(kernel.name, kernel.time_ps) for kernel in largest] == [
        *(("b", 3), ("d", 3), ("c", 2)),
    ]


def test_fill_needs_shapes_cores_and_kernels() -> None:
    table = Kernels(pl.DataFrame(), OTHER)
    assert (
        fill_signals.function(kernels=table, devices=DEVICES, windows=ABSENT) == OTHER
    )
    no_cores = filled(
        shaped(), devices=DEVICES.with_columns(cores=pl.lit(None, pl.Int64))
    )
    assert isinstance(no_cores, Unavailable)
    assert no_cores.code == "NO_PEAKS"
    assert filled(shaped(precision=None)) == NO_KERNELS


def test_the_share_of_unfilled_kernels_in_steps() -> None:
    fill = DeviceFill(10, 400, 0, 100, 0, 1, ())
    shares = SimpleNamespace(percent=lambda *owners: 10.0 * len(owners))
    # A quarter of the kernels' time; kernels have one of five precisions, or none.
    assert fill.unfilled_percent(shares) == 12.5
    nothing = DeviceFill(10, 0, 0, 0, 0, 1, ())
    assert nothing.unfilled_percent(shares) == 0.0


# --- compiled kernels ---

COMPILED = activities(
    ("kernel", 0, 0, 30),
    ("kernel", 0, 0, 10),
    ("kernel", 0, 0, 60),
    ("h2d", 0, 0, 500),
    ("kernel", 1, 0, 0),
    ("collective", 2, 0, 5),
    type=[0, 1, 0, 1, 0, 0],
    hlo_op=["fusion.1", None, None, None, None, None],
)


def compiled(activity: pl.DataFrame = COMPILED, *names: str, launches: Any) -> Any:
    types = types_named("sgemm", "triton_poi_fused", *names)
    return compiled_percent.function(
        device_activity=activity, event_types=types, launches=launches
    )


def test_the_share_of_kernels_that_a_compiler_made() -> None:
    assert compiled(launches=ABSENT) == {0: 40.0, 1: None}
    every = compiled(COMPILED, "Torch-Compiled Region: 0/0", launches=ABSENT)
    assert every == {0: 100.0, 1: 100.0}
    # Neither ops nor programs were recorded: then nobody knows.
    silent = COMPILED.with_columns(hlo_op=pl.lit(None, pl.String))
    assert compiled(silent, launches=ABSENT) == {0: None, 1: None}
    assert compiled(silent, launches=pl.DataFrame()) == {0: 10.0, 1: None}
    by_op = silent.with_columns(op=pl.lit("a", pl.String))
    assert compiled(by_op, launches=ABSENT) == {0: 10.0, 1: None}


# --- traits ---


def test_conversions_and_reorderings() -> None:
    cases: list[tuple[str | None, str, str | None, bool | None, bool]] = [
        ("Cast", "k", None, True, False),
        (None, "float16_copy_kernel", None, True, False),
        ("aten::copy_", "k", None, None, False),
        ("aten::copy_", "k", "(f32[8], f16[8])", True, False),
        ("aten::copy_", "k", "(f32[8], f32[8])", False, False),
        ("aten::copy_", "k", "(f32[8])", None, False),
        ("aten::add", "k", "(f32[8], f16[8])", False, False),
        (None, "NCHWtoNHWC", None, False, True),
        (None, "transpose_gemm", None, False, False),
    ]
    for op_type, name, operands, converts, reorders in cases:
        row = traits(op_type, name, operands, eligible=False)
        assert (row["converts"], row["reorders"]) == (converts, reorders)
        assert row["sized"] is (operands is not None)
        assert (row["odd_size"], row["shape"]) == (None, None)


def traits(
    op_type: str | None, name: str, operands: str | None, *, eligible: bool | None
) -> dict[str, Any]:
    rows = pl.DataFrame(
        {
            "class": [1],
            "op_type": pl.Series([op_type], dtype=pl.String),
            "full_name": [name],
            "eligible": pl.Series([eligible], dtype=pl.Boolean),
        }
    )
    shapes = pl.Series([0, -1 if operands is None else 1])
    strings = ("(f32[3])", operands or "")
    return kernel_traits(rows, shapes, strings).row(0, named=True)


def test_sizes_that_no_matrix_unit_likes() -> None:
    cases: list[tuple[str | None, str, int | None]] = [
        # The last two sizes of up to three tensors of a product.
        ("MatMul", "(f16[7,8,16], f16[16,24])", None),
        ("MatMul", "(f16[8,16], f16[16,25])", 25),
        ("MatMul", "(f16[9,17], f16[16,25])", 9),
        ("MatMul", "(f16[8,8], f16[8,8], f16[8,3])", 3),
        ("MatMul", "(f16[8,8], f16[8,8], f16[8,8], f16[3,3])", None),
        # The first two sizes of the weights of a convolution.
        ("Conv2D", "(f16[7,9,16,16], f16[8,16,3,3])", None),
        ("Conv2D", "(f16[8,8,16,16], f16[8,3,3,3])", 3),
        # The gradients are given the output's, the input with its batch, the weights.
        (
            "aten::convolution_backward",
            "(f16[10,64,56,56], f16[10,64,56,56], f16[64,64,3,3])",
            None,
        ),
        (
            "aten::convolution_backward",
            "(f16[8,64,56,56], f16[8,3,224,224], f16[64,3,7,7])",
            3,
        ),
        (None, "(f16[8,9], f16[9,8])", 9),
        # A vector, and the single channels of a depthwise convolution.
        ("aten::mv", "(f16[4096,1024], f16[1024,1])", None),
        ("aten::conv2d", "(f16[16,64,56,56], f16[64,1,3,3])", None),
    ]
    for op_type, operands, odd in cases:
        row = traits(op_type, "k", operands, eligible=True)
        assert row["odd_size"] == odd
        sizes = [
            text.partition("]")[0].replace(",", "x") for text in operands.split("[")[1:]
        ]
        shape = None if op_type is None else " ".join([op_type, *sizes])
        assert row["shape"] == shape
        for eligible in (False, None):
            other = traits(op_type, "k", operands, eligible=eligible)
            assert (other["odd_size"], other["shape"]) == (None, None)


# --- runs that could be fused ---


def run_rows(**columns: Any) -> pl.DataFrame:
    """Classes 5 to 8: three elementwise kernels, and a product."""
    usual = {
        "class": [5, 6, 7, 8],
        "full_name": [
            "relu_a",
            "vectorized_elementwise_kernel",
            "softmax",
            "gemm_relu",
        ],
        "op": pl.Series([None, "add", None, None], dtype=pl.String),
        "collective": [False] * 4,
        "eligible": pl.Series([None, False, None, True], dtype=pl.Boolean),
        "time_ps": [100, 100, 100, 100],
        "count": [1.0, 1.0, 1.0, 1.0],
    }
    return pl.DataFrame({**usual, **columns})


#: Of stream 1: two, a product, three; of stream 2: a copy, then three; by class.
SHOWN = pl.DataFrame(
    {
        "class": [5, 6, 8, 5, 6, 7, -1, 7, 7, 5],
        "stream": [1, 1, 1, 1, 1, 1, 2, 2, 2, 2],
        "start_ps": [0, 10, 20, 30, 40, 50, 0, 10, 20, 30],
        "end_ps": [10, 14, 30, 40, 46, 60, 10, 12, 28, 40],
    },
    schema_overrides={"stream": pl.Int32},
)


def test_runs_of_three_elementwise_kernels_could_be_fused() -> None:
    """Class 5 runs 10 + 10 + 10 ps, of which 20 are in runs; class 6 6 of 10."""
    found = fusable_runs(run_rows(), SHOWN.sample(fraction=1.0, shuffle=True, seed=3))
    assert found.count == 2
    assert found.rows["class"].to_list() == [5, 6, 7]
    assert found.rows["time_ps"].to_list() == [66, 60, 100]
    # Of 26 and 20 ps, the longest kernel takes 10 each.
    assert found.removable == pytest.approx(26 / 46)


@pytest.mark.parametrize(
    "columns",
    [
        {"collective": [False, True, False, False]},
        {"eligible": [None, True, None, None]},
        {"full_name": ["relu_a", "fused_elementwise", "softmax", "gemm_relu"]},
        {"full_name": ["relu_a", "something", "softmax", "gemm_relu"]},
        {"op": [None, "Fusion.1", None, None]},
        # A benchmark repeated a kernel of 14.4 ms.
        {"time_ps": [100, 10**9, 100, 100]},
        # An optimizer of Apex.
        {
            "full_name": [
                "relu_a",
                "void multi_tensor_apply_kernel<ListMetadata<4>, AdamFunctor<float>",
                "softmax",
                "gemm_relu",
            ]
        },
    ],
)
def test_a_kernel_that_cannot_be_fused_ends_a_run(columns: dict[str, Any]) -> None:
    found = fusable_runs(run_rows(**columns), SHOWN)
    assert found.count == 1
    assert found.rows["class"].to_list() == [5, 7]
    # 10 of 30 and 10 of 20 ps, both of the run on stream 2 alone.
    assert found.rows["time_ps"].to_list() == [33, 50]


def test_fusing_removes_at_most_three_quarters_of_a_run() -> None:
    """Eight equal kernels: seven eighths without the longest."""
    shown = SHOWN[[0] * 8].with_columns(end_ps=pl.lit(10))
    assert fusable_runs(run_rows(), shown).removable == 0.75


def test_many_tensors_in_one_call_are_no_fused_optimizer() -> None:
    foreach = (
        "void at::native::multi_tensor_apply_kernel<TensorListMetadata<1>, "
        "at::native::(anonymous namespace)::BinaryOpScalarFunctor<float, 1, 1, 0>"
    )
    names = ["relu_a", foreach, "softmax", "gemm_relu"]
    assert fusable_runs(run_rows(full_name=names), SHOWN).count == 2


def test_kernels_that_last_no_time_are_in_no_run() -> None:
    instant = SHOWN.with_columns(end_ps=pl.col("start_ps"))
    found = fusable_runs(run_rows(), instant)
    assert (found.count, found.rows.height) == (2, 0)
    nothing = fusable_runs(run_rows(), SHOWN.clear())
    assert (nothing.count, nothing.rows.height) == (0, 0)


# --- roofs and metrics ---


def accounts(host: str = "vm", device: int | None = 0) -> Any:
    judged = SimpleNamespace(host=host, device=device)
    return SimpleNamespace(judged=lambda: judged)


OPS = SimpleNamespace(
    rows=pl.DataFrame(
        {
            "device": [0, 0, 0, 0, 0, 0, 1],
            "module": ["m", "m", None, "m", "m", "m", "m"],
            "name": [
                "memory",
                "compute",
                "equal",
                "unknown",
                "none",
                "endless",
                "other",
            ],
            "kernel_ps": [300, 300, 200, 100, 0, 100, 9_000],
        }
    )
)
COSTS = pl.DataFrame(
    {
        "device": [0, 0, 0, 0, 0],
        "module": ["m", "m", None, "m", "m"],
        "name": ["memory", "compute", "equal", "unknown", "endless"],
        "flops": [10.0, 60.0, 50.0, None, 1.0],
        "peak_flops": [100.0, 100.0, 100.0, 100.0, 0.0],
        "accessed_bytes": [25.0, 10.0, 25.0, 10.0, 10.0],
        "peak_bytes": [50.0, 50.0, 50.0, 50.0, 50.0],
    }
)


def test_ops_reach_the_nearer_of_two_roofs() -> None:
    found = op_roofs.function(
        account_signals=accounts(),
        device_ops={"vm": OPS, "b": ABSENT},
        op_costs={"vm": COSTS},
    )
    assert found.rows() == [
        ("compute", 30.0, 60.0, "compute"),
        ("memory", 30.0, 50.0, "memory"),
        ("equal", 20.0, 50.0, "memory"),
        ("endless", 10.0, None, "compute"),
        ("unknown", 10.0, None, "compute"),
    ]


@pytest.mark.parametrize(
    ("device", "ops", "costs", "why"),
    [
        (None, OPS, COSTS, NO_KERNELS),
        (0, OTHER, COSTS, OTHER),
        (0, OPS, OTHER, OTHER),
    ],
)
def test_roofs_need_a_device_ops_and_costs(
    device: int | None, ops: Any, costs: Any, why: Unavailable
) -> None:
    found = op_roofs.function(
        account_signals=accounts(device=device),
        device_ops={"vm": ops},
        op_costs={"vm": costs},
    )
    assert found == why


def test_metrics_are_joined_to_compute_kernels() -> None:
    rows = pl.DataFrame({"class": [3, 1, 2], "collective": [False, True, False]})
    work = SimpleNamespace(label="a:b:0", rows=rows)
    metrics = SimpleNamespace(rows=pl.DataFrame({"class": [1, 3], "x": [1.0, 2.0]}))
    found = measured_work.function(
        kernel_work=work, measured_kernels={"a:b": metrics, "a": ABSENT}
    )
    assert found.rows() == [(3, False, 2.0), (2, False, None)]
    missing = measured_work.function(kernel_work=work, measured_kernels={"a:b": OTHER})
    assert missing == OTHER
