"""`model_views` on real profiles: sums, known models, and two ways to one number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

import stepscope
from stepscope.analysis.model_views import ModelViewsResult
from stepscope.derive.columns.stat_values import find_handle, rows_with_key
from stepscope.derive.model.view_names import VIEWS
from stepscope.derive.ops.database import device_ops, host_ops
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.derive.profile_data import ProfileData

    Shared = Callable[[str], Path]

QWEN = ("kineto/tracelens_qwen1.5_0.5b_h100", "kineto/tracelens_qwen1.5_0.5b_mi300")


def views(profile: ProfileData, **options: object) -> ModelViewsResult:
    result = profile.tool("model_views", **options)
    assert isinstance(result, ModelViewsResult)
    return result


def roots(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.filter(pl.col("parent").is_null())


@pytest.mark.parametrize(
    "name",
    [
        *("tf_cpu/keras_fit", "tf_cpu/tf215_python_tracer", "tf_cpu/no_step_markers"),
        *("tf_cpu/xla", "tf_cpu/mirrored", "tf_cpu/two_workers", "tf_cpu/inference"),
        *("jax_cpu/python_tracer", "jax_cpu/steps", "torch_cpu/schedule_dataloader"),
        *("gpu_tf/v100_large", "gpu_tf/t4_healthy", "gpu_tf/xprof_gpu_multi_worker"),
        *("gpu_jax_amd/jax08_gemm", "gpu_jax_amd/jax08_conv", "tpu/tpu_inference_2"),
        *("kineto/dlrm_8rank_v100", "kineto/resnet50_num_workers_0", *QWEN),
    ],
)
@pytest.mark.sweep(every=4)
def test_the_roots_of_every_view_hold_all_self_times(
    shared_profile: Shared, name: str
) -> None:
    profile = stepscope.open(shared_profile(name))
    host_ps = device_ps = 0
    for host in profile.hosts:
        on_host = profile.derived(host, host_ops)
        on_device = profile.derived(host, device_ops)
        if not isinstance(on_host, Unavailable):
            host_ps += int(on_host.rows["self_ps"].sum())
        if not isinstance(on_device, Unavailable):
            device_ps += int(on_device.rows["total_ps"].sum())
    result = views(profile)
    assert result.total_us == pytest.approx((host_ps + device_ps) / 1e6, rel=1e-12)
    for view in VIEWS:
        frame = getattr(result, view)
        top = roots(frame)
        assert top["total_us"].sum() == pytest.approx(result.total_us, rel=1e-9)
        assert frame["self_us"].sum() == pytest.approx(result.total_us, rel=1e-9)
        assert (top["total_device_us"].sum() or 0) == pytest.approx(device_ps / 1e6)
        assert (top["total_host_us"].sum() or 0) == pytest.approx(host_ps / 1e6)
        assert top["percent"].sum() == pytest.approx(100)
    sums = {view: roots(getattr(result, view))["flops"].sum() for view in VIEWS}
    assert len(set(sums.values())) == 1, sums


@pytest.mark.parametrize("name", QWEN)
def test_a_transformer_costs_what_its_sizes_say(
    shared_profile: Shared, name: str
) -> None:
    """Qwen1.5-0.5B: 24 layers of width 1024 and 2816, 16 heads of 64, 16 x 559 tokens.

    The other way to the same number is the rule of two operations per weight and
    token.
    """
    result = views(stepscope.open(shared_profile(name)))
    tokens, length, layers, width, inner = 16 * 559, 559, 24, 1024, 2816
    weights = layers * (4 * width * width + 3 * width * inner)
    biases = layers * 3 * width
    linear = 2 * weights * tokens
    # The recorded arguments say that the mask is causal: half of the two products.
    attention = layers * 2 * (2 * 16 * 16 * length * length * 64) // 2
    by_type = dict(result.op.select("name", "flops").rows())
    assert by_type["aten::mm"] + by_type["aten::addmm"] == linear
    assert by_type["aten::_flash_attention_forward"] == attention
    # Whatever calls them did not do the product itself.
    assert by_type["aten::linear"] == by_type["aten::matmul"] == 0
    (model,) = result.scope.filter(pl.col("name") == "Qwen2Model_0").to_dicts()
    rest = model["flops"] - linear - attention
    assert 0 < rest < 0.01 * model["flops"]
    # Published: 463,987,712 parameters, of which 49 norms of this width multiply by
    # hand and not in an op of their own; embedding and head share their weights.
    assert model["parameters"] == 463_987_712 - 49 * width
    assert model["parameters"] == weights + biases + 151_936 * width


@pytest.mark.profiles
def test_two_devices_compute_the_same_model(shared_profile: Shared) -> None:
    nvidia, amd = (views(stepscope.open(shared_profile(name))) for name in QWEN)
    assert roots(nvidia.op)["flops"].sum() == roots(amd.op)["flops"].sum()


def test_one_convolution_three_times_in_a_compiled_step(shared_profile: Shared) -> None:
    """Forward and both gradients of the second layer cost the same products."""
    result = views(stepscope.open(shared_profile("tf_cpu/xla")))
    layer = 2 * 16 * 29 * 29 * 32 * 9 * 16
    first = 2 * 16 * 62 * 62 * 16 * 9 * 3
    products = result.op.filter(pl.col("name").str.contains("^Conv2D|^convolution$"))
    # 15 steps; the first layer has no gradient of its input.
    assert products["flops"].sum() == 15 * (3 * layer + 2 * first)


def test_a_graph_that_recorded_shapes_agrees_with_the_compiled_one(
    shared_profile: Shared,
) -> None:
    """The same network without XLA: the gradient of the second layer's input."""
    result = views(stepscope.open(shared_profile("tf_cpu/tf215_python_tracer")))
    (row,) = result.op.filter(pl.col("name").str.contains("BackpropInput")).to_dicts()
    assert row["flops"] == row["occurrences"] * 2 * 16 * 29 * 29 * 32 * 9 * 16
    # Stride and padding of the forward pass were not recorded.
    forward = result.op.filter(pl.col("name").str.contains("FusedConv2D"))
    assert forward["flops"].to_list() == [None]


def test_products_of_a_small_network_by_hand(shared_profile: Shared) -> None:
    """784-512-256-10, batch 128, 40 steps: forward and two gradients but the first."""
    result = views(stepscope.open(shared_profile("jax_cpu/steps")))
    one, two, three = (2 * 128 * a * b for a, b in ((784, 512), (512, 256), (256, 10)))
    products = result.op.filter(pl.col("name").is_in(["dot_general", "transpose"]))
    assert products["flops"].sum() == 40 * (2 * one + 3 * two + 3 * three)


@pytest.mark.profiles
def test_what_the_producer_counted_is_what_the_shapes_say(
    shared_profile: Shared,
) -> None:
    """The TPU's compiler stored `flops` beside each instruction."""
    profile = stepscope.open(shared_profile("tpu/tpu_inference_2"))
    (host,) = profile.hosts
    trace = profile.trace(host)
    stored = rows_with_key(
        trace.table("type_stats"), "type", find_handle(trace.strings, StatKey.FLOPS)
    )
    by_type = dict(zip(stored.owner.tolist(), stored.value.tolist(), strict=True))
    activity = trace.table("device_activity")
    recorded = sum(by_type.get(one, 0) for one in activity["type"].to_list())
    assert recorded > 0
    with_programs = views(profile)
    without = views(
        profile.without("hlo_ops", Unavailable(code="NO_HLO", reason="-.", remedy="-."))
    )
    # What the tracer stored stands in where there is no program.
    assert roots(without.op)["flops"].sum() == recorded
    sums = roots(with_programs.op)["flops"].sum()
    reduced = with_programs.op.filter(pl.col("name") == "reduce_sum")["flops"].sum()
    assert sums - reduced == pytest.approx(recorded, rel=0.02)


@pytest.mark.profiles
def test_the_gradients_of_a_known_network(shared_profile: Shared) -> None:
    """ResNet-50 is published with 4.09 G multiplications for one image of 224 x 224.

    Without the first convolution, whose input has no gradient, and without the last
    layer, which is no convolution, that is what six steps of 32 images repeat.
    """
    path = shared_profile("kineto/resnet50_num_workers_0")
    result = views(stepscope.open(path))
    (row,) = result.op.filter(pl.col("name").str.contains("backward_input")).to_dicts()
    assert row["occurrences"] == 6 * 52
    first, last = 112 * 112 * 64 * 7 * 7 * 3, 2048 * 1000
    expected = 2 * 6 * 32 * (4.09e9 - first - last)
    assert row["flops"] == pytest.approx(expected, rel=2e-3)
    # Stride and padding were not recorded: the forward pass is not known, not 0.
    forward = result.op.filter(pl.col("name") == "aten::cudnn_convolution")
    assert forward["flops"].to_list() == [None]


@pytest.mark.profiles
def test_one_product_per_call_of_a_library(shared_profile: Shared) -> None:
    """Five products of known sizes and one fused one, three calls each."""
    result = views(stepscope.open(shared_profile("gpu_jax_amd/jax08_gemm")))
    row = result.scope.filter(pl.col("name") == "jit(dot)/dot_general").to_dicts()[0]
    assert row["occurrences"] == 18
    assert row["flops"] % 3 == 0
    # Each call is one execution although the library splits some into more kernels.
    sizes = {1024: 1024, 2048: 8192, 4096: 4096, 8192: 4096, 256: 256}
    square = sum(2 * n * n * k for n, k in sizes.items())
    assert row["flops"] == 3 * (square + 2 * 16384 * 4096 * 1024)
