"""Which kernels use matrix units, and which ops could."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.traces import blueprint

from stepscope.derive.device.activity_classes import activity_classes
from stepscope.derive.device.precision import (
    is_matmul_equation,
    is_matmul_name,
    is_matmul_type,
    tensor_cores,
)
from stepscope.formats.opening import read
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

VOLTA = {"compute_cap_major": 7, "compute_cap_minor": 0}
PASCAL = {"compute_cap_major": 6, "compute_cap_minor": 1}


@pytest.mark.parametrize(
    "op_type",
    [
        "MatMul",
        "_FusedConv2D",
        "Conv3DBackpropInputV2",
        "BatchMatMulV2",
        "CudnnRNNV3",
        "DepthwiseConv2dNativeBackpropFilter",
        "dot_general",
        "aten::mm",
        "aten::_scaled_grouped_mm",
        "aten::_int_mm",
        "_FusedBatchMatMulV2",
        "aten::addmm_",
        "aten::_addmm_activation",
        "aten::linear",
        "aten::conv2d",
        "aten::_conv_depthwise2d",
        "aten::convolution_backward",
        "aten::cudnn_convolution_backward_weight",
        "aten::_scaled_dot_product_flash_attention",
        "aten::_flash_attention_forward",
    ],
)
def test_products_and_convolutions_are_eligible_types(op_type: str) -> None:
    assert is_matmul_type(op_type)


@pytest.mark.parametrize(
    "op_type",
    [
        *("Relu", "MatMulSize", "Conv2DShape", "AddV2", "aten::mul", "aten::convert"),
        *("aten::_convert_weight", "aten::max_pool2d", "aten::mean", "aten::softmax"),
    ],
)
def test_other_types_are_not(op_type: str) -> None:
    assert not is_matmul_type(op_type)


def test_names_decide_only_at_their_end_or_by_a_library_name() -> None:
    assert is_matmul_name("model/conv1/Conv2D")
    assert is_matmul_name("model/dense/MatMul")
    assert is_matmul_name("BatchMatMulV2_3/x")
    assert not is_matmul_name("model/conv1/Relu")
    assert not is_matmul_name("my/Conv2D/Reshape")


def test_an_equation_of_two_operands_is_a_product() -> None:
    assert is_matmul_equation("ab,bc->ac")
    assert not is_matmul_equation("ab->ba")
    assert not is_matmul_equation("ab,bc,cd->ad")
    assert not is_matmul_equation("ab,bc")


def judged(
    name: str, op: str | None, device: dict[str, int | str] | None
) -> tuple[int, int]:
    """(uses, eligible) of the one kernel of a trace; 1, 0 or -1 for unknown."""
    stats = {} if op is None else {"tf_op": op}
    trace = blueprint.trace(
        [("gpu:0/7(Compute)", name, 0, 5, stats)],
        devices=None if device is None else {0: device},
    )
    found = blueprint.profile(trace).derived("vm", tensor_cores)
    uses, eligible, _ = found.of_class[0].tolist()
    return uses, eligible


def test_a_layer_name_does_not_hide_an_eligible_type() -> None:
    op = "alex_net/conv2d_1/Relu:_FusedConv2D"
    assert judged("volta_scudnn_128x64", op, VOLTA) == (0, 1)


def test_an_elementwise_op_is_not_eligible() -> None:
    assert judged("relu_kernel", "conv2d/Relu:Relu", VOLTA) == (0, 0)


def test_a_device_without_matrix_units_uses_none() -> None:
    assert judged("maxwell_s884_like_name", "x/MatMul:MatMul", PASCAL) == (0, 0)


def test_an_unknown_capability_makes_eligibility_unknown() -> None:
    assert judged("volta_sgemm", "x/MatMul:MatMul", None) == (0, -1)
    assert judged("volta_sgemm", None, None) == (0, -1)


def test_a_kernel_that_uses_them_makes_its_op_eligible() -> None:
    assert judged("volta_h884gemm", None, VOLTA) == (1, 1)
    assert judged("volta_h884gemm", None, None) == (1, 1)


def test_an_op_that_nothing_names_is_unknown_not_ineligible() -> None:
    assert judged("my_kernel", None, VOLTA) == (0, -1)


def test_a_product_kernel_is_eligible_whatever_encloses_it() -> None:
    for op in (None, "CompiledFunctionBackward:CompiledFunctionBackward", "x:Relu"):
        assert judged("volta_sgemm_128x64_nn", op, VOLTA) == (0, 1)
    assert judged("volta_sgemm_128x64_nn", None, PASCAL) == (0, 0)


@pytest.mark.parametrize(
    "op_type",
    [
        *("CompiledFunction", "CompiledFunctionBackward", "StatefulPartitionedCall"),
        *("XlaRun", "While"),
    ],
)
def test_an_op_that_may_hold_any_other_is_unknown_not_ineligible(op_type: str) -> None:
    assert judged("my_kernel", f"x:{op_type}", VOLTA) == (0, -1)


def test_without_the_table_of_devices_eligibility_is_unknown() -> None:
    why = Unavailable(code="NOT_RECORDED", reason="no devices.", remedy="record.")
    profile = blueprint.profile(blueprint.a1()).without("devices", why)
    found = profile.derived("vm", tensor_cores)
    # s884 in the name shows use, and with it eligibility; the rest stays open.
    rows = profile.derived("vm", activity_classes).code[:3]
    assert found.of_class[rows, 1].tolist() == [1, -1, 0]
    assert found.of_class[rows, 0].tolist() == [1, 0, 0]


@pytest.mark.profiles
def test_kernels_of_what_is_no_gpu_are_not_judged_by_the_names_of_gpus(
    shared_profile: Callable[[str], Path],
) -> None:
    path = next(shared_profile("tpu/tpu_inference_2").rglob("*.xplane.pb*"))
    trace = read(path)
    found = blueprint.profile(trace).derived(trace.host, tensor_cores)
    uses, eligible, _ = found.of_class.T
    assert set(uses.tolist()) <= {-1, 0}
    assert -1 in uses
    assert 1 not in eligible
