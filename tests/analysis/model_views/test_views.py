"""`model_views`: the four trees, their sums, and what they cannot say."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from tests.support.traces import blueprint
from tests.support.traces.kineto import call, complete, kernel, read_file

from stepscope.analysis import model_views
from stepscope.analysis.model_views import ModelViewsResult, Options
from stepscope.analysis.model_views.views import VIEW_ROWS
from stepscope.derive.model.view_names import VIEWS
from stepscope.errors import BadUsage
from stepscope.trace.tables import HLO_OPS, PARAMETERS, TABLES
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.derive.profile_data import ProfileData
    from stepscope.trace.model import TraceData


def analysed(profile: ProfileData, **options: Any) -> ModelViewsResult:
    result = model_views.analyse(profile, Options(**options))
    assert isinstance(result, ModelViewsResult), result
    return result


def by_name(frame: pl.DataFrame, *columns: str) -> dict[str, Any]:
    """Name → the columns' values; a name stands once."""
    assert frame["name"].is_unique().all()
    picked = frame.select("name", *columns).rows()
    return {name: rest[0] if len(rest) == 1 else rest for name, *rest in picked}


def roots(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.filter(pl.col("parent").is_null())


def missing(result: ModelViewsResult) -> dict[str, str]:
    return {one.field: one.code for one in result.missing}


def every_null_is_explained(result: ModelViewsResult) -> None:
    """Nulls of numbers have a reason; those of `parent` and `type` have a meaning."""
    fields = missing(result)
    for view in VIEWS:
        frame = getattr(result, view)
        for column in set(frame.columns) - {"parent", "type"}:
            if frame[column].null_count():
                assert f"{view}.{column}" in fields


# ------------------------------------------------------------------ A.1 and A.2


def test_rows_hold_the_declared_columns() -> None:
    result = analysed(blueprint.profile(blueprint.a1()))
    for view in VIEWS:
        assert dict(getattr(result, view).schema) == VIEW_ROWS.dtypes()
    every_null_is_explained(result)


def test_the_scopes_of_a1() -> None:
    scope = analysed(blueprint.profile(blueprint.a1())).scope
    columns = ("depth", "total_us", "self_us", "device_us", "occurrences")
    # Equal times: by name; children follow their parents.
    assert scope.select("name", *columns).rows() == [
        ("model", 1, 1600.0, 0.0, 0.0, 16),
        ("model/dense", 2, 800.0, 0.0, 0.0, 8),
        ("model/dense/MatMul", 3, 800.0, 800.0, 800.0, 8),
        ("model/dense_1", 2, 800.0, 0.0, 0.0, 8),
        ("model/dense_1/MatMul", 3, 800.0, 800.0, 800.0, 8),
        ("MemcpyH2D", 1, 560.0, 560.0, 560.0, 16),
        ("allreduce", 1, 480.0, 480.0, 480.0, 8),
        ("MemcpyD2H", 1, 80.0, 80.0, 80.0, 8),
    ]
    assert scope["parent"].to_list() == [None, 0, 1, 0, 3, None, None, None]
    assert scope["percent"].to_list()[0] == pytest.approx(100 * 1600 / 2720)


def test_the_scopes_and_calls_of_a2() -> None:
    result = analysed(blueprint.profile(blueprint.a2()))
    assert by_name(result.scope, "total_us", "self_us") == {
        "Iterator::Prefetch::ParallelMapV2::TFRecord": [360.0, 360.0],
        "Outer": [450.0, 300.0],
        "Outer/inner": [150.0, 150.0],
        "a": [450.0, 0.0],
        "a/MatMul": [300.0, 300.0],
        "a/Relu": [150.0, 150.0],
        "Iterator::Batch::TFRecord": [90.0, 90.0],
        "Iterator::Shuffle": [60.0, 60.0],
    }
    # The same op once by its name and once by what called it.
    assert result.graph.select("name", "depth", "self_us").rows()[:2] == [
        ("Outer", 1, 300.0),
        ("Outer/inner", 2, 150.0),
    ]
    assert by_name(result.op, "self_us", "occurrences") == {
        "Dataset": [510.0, 9],
        "MatMul": [300.0, 3],
        "Outer": [300.0, 3],
        "Relu": [150.0, 3],
        "Inner": [150.0, 3],
    }
    assert result.scope["device_us"].null_count() == len(result.scope)
    assert missing(result)["scope.device_us"] == "NO_DEVICE_PLANE"
    assert missing(result)["code"] == "HOST_LEVEL"
    assert result.code["name"].to_list() == ["(no source line)"]
    every_null_is_explained(result)


def test_hosts_add_up() -> None:
    one = analysed(blueprint.profile(blueprint.a1()))
    both = analysed(blueprint.profile(blueprint.a1(), blueprint.a5_host_b()))
    assert both.total_us == 2 * one.total_us + 80
    assert by_name(both.scope, "self_us")["model/dense_1/MatMul"] == 800 + 880


@pytest.mark.slow(seconds=0.4)
def test_one_step_alone() -> None:
    profile = blueprint.profile(blueprint.a1())
    one = analysed(profile, step=103)
    assert by_name(one.scope, "total_us", "occurrences")["model"] == [200.0, 2]
    assert one.total_us == 340.0
    whole = sum(analysed(profile, step=100 + at).total_us for at in range(8))
    assert whole == analysed(profile).total_us
    host = blueprint.profile(blueprint.a2())
    assert by_name(analysed(host, step=51).op, "self_us")["MatMul"] == 100.0


def test_the_last_steps_together() -> None:
    profile = blueprint.profile(blueprint.a1())
    both = analysed(profile, last_steps=2)
    assert list((both.steps or {}).values()) == [(106, 107)]
    assert both.total_us == sum(
        analysed(profile, step=number).total_us for number in (106, 107)
    )
    assert analysed(profile, last_steps=99).total_us == analysed(profile).total_us
    assert analysed(profile).steps is None


def test_the_steps_of_a_name() -> None:
    profile = blueprint.profile(blueprint.a1())
    assert list((analysed(profile, step_name="train").steps or {}).values()) == [
        tuple(range(100, 108))
    ]
    with pytest.raises(BadUsage, match="no step has the marker 'test'; known: train"):
        analysed(profile, step_name="test")
    with pytest.raises(BadUsage, match="last_steps=0 is not a number of steps"):
        analysed(profile, last_steps=0)


def test_thresholds_of_hosts_and_of_devices() -> None:
    profile = blueprint.profile(blueprint.a1())
    # All of the model ran on the device.
    assert "model" in by_name(analysed(profile, min_accelerator_micros=1600).scope)
    assert "model" not in by_name(analysed(profile, min_accelerator_micros=1601).scope)
    assert "model" not in by_name(analysed(profile, min_cpu_micros=1).scope)


def test_what_a_threshold_of_the_unknown_leaves_out_is_explained() -> None:
    result = analysed(blueprint.profile(blueprint.a1()), min_params=1)
    assert result.op.height == 0
    assert missing(result)["op.parameters"] == "NO_SHAPES"


def test_a_step_that_does_not_exist_is_refused() -> None:
    with pytest.raises(BadUsage, match="no step 99; known: 100 to 107"):
        analysed(blueprint.profile(blueprint.a1()), step=99)
    lines = [("main", "a/MatMul:MatMul", 0, 5)]
    result = model_views.analyse(
        blueprint.profile(blueprint.trace(lines)), Options(step=1)
    )
    assert isinstance(result, Unavailable)
    assert result.code == "NO_STEPS"


def test_a_step_without_what_ties_the_device_to_it_says_so() -> None:
    profile = blueprint.profile(blueprint.a1()).without("launches", WHY)
    result = analysed(profile, step=103)
    # The host runs no op here, so nothing is known of the step but its marker.
    assert missing(result)["scope"] == "LOST_EVENTS"
    assert (len(result.scope), len(result.annotation)) == (0, 1)


# ------------------------------------------------------------------ compiled programs


def test_a_compiled_op_costs_what_its_instructions_cost_however_many_kernels() -> None:
    """Two runs of a product with two kernels each: two products, not four."""
    lines = []
    for run in range(2):
        begin = 100 * run
        stats = {"hlo_op": "dot.1", "hlo_module": "jit_f", "program_id": 7}
        lines.append(("main", "dot.1", begin, 10, stats))
        for part in range(2):
            number = 2 * run + part + 1
            lines.append(
                ("main", "cuLaunchKernel", begin + part, 1, {"correlation_id": number})
            )
            on_device = stats | {"correlation_id": number}
            lines.append(("gpu:0/7", f"part{part}", begin + 20 + part, 1, on_device))
    trace = blueprint.substitute(
        blueprint.trace(sorted(lines, key=lambda one: one[0] != "main")),
        hlo_ops=pl.DataFrame(
            [
                {"name": "a", "opcode": "parameter", "shape": "f32[8,3]"},
                {"name": "b", "opcode": "parameter", "shape": "f32[3,5]"},
                {
                    "name": "dot.1",
                    "opcode": "dot",
                    "shape": "f32[8,5]",
                    "operands": ["a", "b"],
                    "attributes": "lhs_contracting_dims={1}",
                    "op_name": "jit(f)/dense/dot_general",
                    "source_file": "train.py",
                    "source_line": 12,
                },
            ],
            schema=HLO_OPS.dtypes(),
        ).with_columns(
            program=pl.lit(7, pl.Int64), module=pl.lit("jit_f"), computation=pl.lit("m")
        ),
    )
    result = analysed(blueprint.profile(trace))
    (leaf,) = result.scope.filter(pl.col("depth") == 3).to_dicts()
    assert leaf["name"] == "jit(f)/dense/dot_general"
    assert (leaf["occurrences"], leaf["flops"]) == (2, 2 * (2 * 8 * 5 * 3))
    assert (leaf["host_us"], leaf["device_us"]) == (20.0, 4.0)
    assert result.code.select("name", "self_us", "flops").rows() == [
        ("train.py:12", 24.0, 480)
    ]
    assert result.flops_known_percent == 100.0


# ------------------------------------------------- operands, modules, memory, frames

DIMS = {
    "aten::linear": ([[4, 3], [5, 3], [5]], ["", "", ""]),
    "aten::addmm": ([[5], [4, 3], [3, 5], [], []], ["", "", "", "1", "1"]),
    "aten::t": ([[5, 3]], [""]),
    "my::op": ([[4, 3]], [""]),
}


def op(name: str, ts: float, dur: float, external: int) -> dict[str, Any]:
    sizes, values = DIMS[name]
    types = ["float" if size else "Scalar" for size in sizes]
    args = {
        "External id": external,
        "Input Dims": sizes,
        "Input type": types,
        "Concrete Inputs": values,
    }
    return complete(name, ts, dur, args=args)


def frame(name: str, ts: float, dur: float) -> dict[str, Any]:
    return complete(name, ts, dur, cat="python_function")


def layered(begin: float, number: int) -> list[dict[str, Any]]:
    """One run of a model of two layers, of which each launches two kernels."""
    events = [
        frame("train.py(7): step", begin, 100),
        frame("nn.Module: Net_0", begin + 1, 90),
    ]
    for layer in range(2):
        at = begin + 2 + 40 * layer
        first = 10 * number + 4 * layer
        events += [
            frame(f"nn.Module: Linear_{layer}", at, 30),
            frame("nn/linear.py(5): forward", at, 30),
            op("aten::linear", at + 1, 20, first),
            op("aten::t", at + 2, 3, first + 1),
            op("aten::addmm", at + 6, 10, first + 2),
            call("cudaLaunchKernel", at + 7, 1, correlation=first),
            call("cudaLaunchKernel", at + 9, 1, correlation=first + 1),
            kernel("gemm", at + 20, 2, correlation=first, **{"External id": first + 2}),
            kernel(
                "split", at + 23, 1, correlation=first + 1, **{"External id": first + 2}
            ),
            complete(
                "[memory]", at + 8, 0, ph="i", cat="cpu_instant_event",
                args={"Addr": 64 * first, "Bytes": 80, "Device Type": 1, "Device Id": 0,
                      "Total Allocated": 80, "Total Reserved": 100},
            ),
        ]  # fmt: skip
    return events


@pytest.fixture(scope="module")
def layers(tmp_path_factory: pytest.TempPathFactory) -> TraceData:
    events = [*layered(0, 0), *layered(200, 1), op("my::op", 400, 5, 99)]
    path = tmp_path_factory.mktemp("layers") / "layers.pt.trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}), "utf-8")
    return read_file(path)


#: 4 x 5 sums of 3 products.
PRODUCT = 2 * 4 * 5 * 3


def test_modules_are_scopes_and_an_inner_product_counts_once(layers: TraceData) -> None:
    result = analysed(blueprint.profile(layers))
    columns = ("occurrences", "flops", "parameters", "allocated_bytes", "device_us")
    found = by_name(result.scope, *columns)
    for layer in range(2):
        path = f"Net_0/Linear_{layer}"
        # Twice each: linear, t and addmm; 15 weights and 5 biases, read twice.
        assert found[path] == [6, 2 * PRODUCT, 20, 160, 0.0]
        assert found[f"{path}/aten::addmm"] == [2, 2 * PRODUCT, None, 160, 6.0]
        assert found[f"{path}/aten::linear"] == [2, 0, 20, None, 0.0]
        assert found[f"{path}/aten::t"] == [2, 0, None, None, 0.0]
    assert found["Net_0"][:3] == [12, 4 * PRODUCT, 40]
    assert found["my::op"][:2] == [1, None]
    every_null_is_explained(result)
    assert missing(result)["scope.flops"] == "NO_SHAPES"
    # 12 µs on the device and all of the host but the 5 µs of an op without formula.
    assert result.total_us == 4 * (20 + 3) + 5
    assert result.flops_known_percent == pytest.approx(100 * 92 / 97)


def test_calls_and_lines_hold_the_same_sums(layers: TraceData) -> None:
    result = analysed(blueprint.profile(layers))
    graph = by_name(result.graph, "depth", "self_us", "total_us", "occurrences")
    assert graph == {
        # Of 20 µs 13 are its callees'.
        "aten::linear": [1, 28.0, 92.0, 12],
        "aten::addmm": [2, 52.0, 52.0, 4],
        "aten::t": [2, 12.0, 12.0, 4],
        "my::op": [1, 5.0, 5.0, 1],
    }
    code = result.code.select("name", "depth", "total_us", "flops").rows()
    assert code == [
        ("train.py:7 step", 1, 92.0, 4 * PRODUCT),
        ("nn/linear.py:5 forward", 2, 92.0, 4 * PRODUCT),
        ("(no source line)", 1, 5.0, None),
    ]
    for view in VIEWS:
        top = roots(getattr(result, view))
        assert top["total_us"].sum() == result.total_us
        assert top["flops"].sum() == 4 * PRODUCT
        assert top["parameters"].sum() == 40
        assert top["allocated_bytes"].sum() == 320


def test_an_op_keeps_the_work_that_its_callees_do_not_do(tmp_path: Path) -> None:
    """An op that makes room, or adds one number, did not hand its work over."""
    sizes = {"aten::layer_norm": [4, 8], "aten::empty": [4, 8], "aten::add": [2]}
    sizes |= {"aten::mean": [4, 8], "aten::sum": [4, 8]}

    def run(name: str, ts: float, dur: float) -> dict[str, Any]:
        args = {"Input Dims": [sizes[name]], "Input type": ["float"]}
        return complete(name, ts, dur, args=args)

    events = [
        run("aten::layer_norm", 0, 50),
        run("aten::empty", 1, 5),
        run("aten::add", 10, 5),
        run("aten::mean", 100, 50),
        run("aten::sum", 110, 5),
    ]
    path = tmp_path / "nested.pt.trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}), "utf-8")
    result = analysed(blueprint.profile(read_file(path)))
    assert by_name(result.op, "flops") == {
        "aten::layer_norm": 5 * 32 - 2,
        "aten::add": 2,
        "aten::empty": 0,
        "aten::mean": 0,  # all of it is the sum inside
        "aten::sum": 32,
    }


def described(trace: TraceData, *variables: tuple[Any, ...]) -> TraceData:
    """The trace with a description of (name, scope, shape, trainable)."""
    columns = ("name", "scope", "shape", "trainable")
    rows = [dict(zip(columns, one, strict=True)) for one in variables]
    return blueprint.substitute(
        trace, parameters=pl.DataFrame(rows, schema=PARAMETERS.dtypes())
    )


def test_described_variables_stand_in_their_own_scopes() -> None:
    trace = described(
        blueprint.a1(),
        ("model/dense/kernel", "model/dense", [7, 3], True),
        ("model/dense/bias", "model/dense", [3], True),
        ("model/norm/mean", "model/norm", [2, 2], False),
        ("temperature", "", [], True),
        ("model/late/kernel", "model/late", None, True),
    )
    result = analysed(blueprint.profile(trace))
    found = by_name(result.scope, "parameters", "total_us")
    assert found["model/dense"] == [24, 800.0]
    assert found["model/dense/kernel"] == [21, 0.0]
    assert found["model/norm"] == [4, 0.0]
    assert found["model"] == [28, 1600.0]
    assert found["temperature"] == [1, 0.0]
    # Its sizes are not known, and an op is no variable.
    for name in ("model/late", "model/dense/MatMul", "allreduce"):
        assert found[name][0] is None
    assert missing(result)["scope.parameters"] == "NO_SAMPLES"
    assert result.total_us == analysed(blueprint.profile(blueprint.a1())).total_us
    every_null_is_explained(result)


def test_described_variables_are_a_type_of_their_own_among_op_types() -> None:
    trace = described(
        blueprint.a1(),
        ("model/dense/kernel", "model/dense", [7, 3], True),
        ("model/dense/bias", "model/dense", [3], False),
    )
    profile = blueprint.profile(trace)
    assert by_name(analysed(profile).op, "parameters")["Variable"] == 24
    trained = analysed(profile, preset="trainable_variables_parameter").op
    assert by_name(trained, "parameters") == {"Variable": 21}


def test_trained_variables_are_shown_however_little_they_cost() -> None:
    trace = described(
        blueprint.a1(),
        ("late/kernel", "late", [7, 3], True),
        ("late/mean", "late", [2], False),
    )
    profile = blueprint.profile(trace)
    plain = analysed(profile, preset="time_and_memory").scope
    assert "late" not in by_name(plain)
    shown = by_name(
        analysed(
            profile, preset="time_and_memory", show_trainable_variables=True
        ).scope,
        "parameters",
    )
    assert {name: shown.get(name) for name in ("late", "late/kernel", "late/mean")} == {
        "late": 21,
        "late/kernel": 21,
        "late/mean": None,
    }


def test_the_preset_of_trainable_variables_leaves_out_the_others() -> None:
    trace = described(
        blueprint.a1(),
        ("block.0.weight", "block.0", [7, 3], True),
        ("block.0.frozen", "block.0", [5], False),
        ("block.1.weight", "block.1", [9], None),
    )
    profile = blueprint.profile(trace)
    result = analysed(profile, preset="trainable_variables_parameter")
    assert by_name(result.scope, "parameters") == {
        "block": 30,
        "block/0": 21,
        "block/0/weight": 21,
        "block/1": 9,
        "block/1/weight": 9,
    }
    assert missing(result)["scope.parameters[trainable]"] == "NOT_RECORDED"
    assert by_name(analysed(profile).scope, "parameters")["block"] == 35


def test_a_description_replaces_what_layers_were_seen_to_read(
    layers: TraceData,
) -> None:
    trace = described(layers, ("first.weight", "first", [5, 3], True))
    result = analysed(blueprint.profile(trace, blueprint.renamed(trace, "other")))
    # Two hosts hold the same model, so its variables count once.
    assert by_name(result.scope, "parameters")["first"] == 15
    assert by_name(result.scope, "parameters")["Net_0"] is None
    assert result.graph["parameters"].sum() == 40


def test_replicas_of_a_model_are_one_model(layers: TraceData) -> None:
    both = analysed(blueprint.profile(layers, blueprint.renamed(layers, "other")))
    found = by_name(both.scope, "parameters", "flops", "allocated_bytes")
    assert found["Net_0"] == [40, 8 * PRODUCT, 640]


WHY = Unavailable(code="LOST_EVENTS", reason="taken away.", remedy="Put it back.")


@cache
def whole_of(trace: TraceData) -> tuple[ProfileData, ModelViewsResult]:
    profile = blueprint.profile(trace)
    return profile, analysed(profile)


@pytest.mark.parametrize("table", sorted(set(TABLES) - {"quality"}))
@pytest.mark.parametrize("which", ["layers", "a1", "a2"])
@pytest.mark.sweep(every=5)
def test_without_a_table_nothing_turns_into_a_zero(
    table: str, which: str, layers: TraceData
) -> None:
    trace = layers if which == "layers" else getattr(blueprint, which)()
    profile, whole = whole_of(trace)
    result = model_views.analyse(profile.without(table, WHY), Options())
    if isinstance(result, Unavailable):
        assert result.reason
        return
    every_null_is_explained(result)
    for view in VIEWS:
        before, after = (roots(getattr(one, view)) for one in (whole, result))
        for column in ("flops", "parameters", "allocated_bytes", "total_device_us"):
            if after[column].count():
                assert after[column].sum() in (before[column].sum(), 0)
            if before[column].sum() and after[column].count():
                # What is left is what there was, or what is known to be nothing.
                assert after[column].sum() == before[column].sum()


@pytest.mark.parametrize(
    ("table", "column", "code"),
    [
        ("stats", "flops", "NO_SHAPES"),
        ("stats", "parameters", "NO_SHAPES"),
        ("allocations", "allocated_bytes", "LOST_EVENTS"),
        ("device_activity", "device_us", "LOST_EVENTS"),
    ],
)
def test_what_a_table_told_is_null_without_it(
    table: str, column: str, code: str, layers: TraceData
) -> None:
    profile = blueprint.profile(layers).without(table, WHY)
    result = analysed(profile)
    known = result.scope.filter(pl.col("name").str.contains("addmm|linear$"))
    assert known[column].null_count() == len(known)
    assert missing(result)[f"scope.{column}"] == code


def test_a_profile_without_ops_is_unavailable() -> None:
    trace = blueprint.trace([("main", "PjitFunction(f)", 0, 5)])
    result = model_views.analyse(blueprint.profile(trace), Options())
    assert isinstance(result, Unavailable)
    assert result.code == "HOST_LEVEL"
