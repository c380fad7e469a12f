"""The program that the GPU-shaped profile pretends to have run: its ops and kernels.

An imagined residual network with attention, trained with Adam in mixed precision. The
lists are in launch order of one step; the timeline repeats them with jitter.
"""

from dataclasses import dataclass

BLOCKS = 28
OPTIMIZER_VARIABLES = 120
US = 1_000_000  # picoseconds

# Kernel → (typical duration in us, registers, static and dynamic shared memory,
# grid, block, occupancy in percent).
KERNELS: dict[str, tuple[float, int, int, int, str, str, float]] = {
    "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x32"
    "_stage4_warpsize2x2x1_g1_tensor16x8x16_kernel_cudnn": (
        92, 190, 0, 69632, "392,2,1", "128,1,1", 12.5,
    ),
    "sm80_xmma_dgrad_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x32"
    "_stage4_warpsize2x2x1_g1_tensor16x8x16_kernel_cudnn": (
        104, 202, 0, 69632, "392,2,1", "128,1,1", 12.5,
    ),
    "sm80_xmma_wgrad_implicit_gemm_indexed_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize"
    "128x128x32_stage4_warpsize2x2x1_g1_tensor16x8x16_kernel_cudnn": (
        118, 222, 0, 73728, "64,4,2", "128,1,1", 12.5,
    ),
    "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_nn": (
        61, 138, 0, 81920, "8,64,1", "128,1,1", 12.5,
    ),
    "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_nt": (
        66, 138, 0, 81920, "8,64,1", "128,1,1", 12.5,
    ),
    "ampere_sgemm_64x64_nn": (44, 126, 8448, 0, "32,16,1", "64,1,1", 43.75),
    "void tensorflow::functor::FusedBatchNormTrainingKernel<Eigen::half, float, true>"
    "(Eigen::half const*, float const*, float*, int)": (
        28, 40, 4352, 0, "256,1,1", "512,1,1", 75.0,
    ),
    "void tensorflow::functor::FusedBatchNormGradKernel<Eigen::half, float>"
    "(Eigen::half const*, Eigen::half const*, float*, int)": (
        37, 48, 8704, 0, "256,1,1", "512,1,1", 62.5,
    ),
    "void Eigen::internal::EigenMetaKernel<Eigen::TensorEvaluator<Eigen::"
    "TensorAssignOp<Eigen::TensorMap<Eigen::Tensor<Eigen::half, 1, 1, int>, 16>, "
    "Eigen::TensorCwiseUnaryOp<Eigen::internal::scalar_max_op<Eigen::half>>>>, int>"
    "(Eigen::TensorEvaluator<Eigen::half>, int)": (
        14, 20, 0, 0, "432,1,1", "1024,1,1", 100.0,
    ),
    "void tensorflow::BiasNHWCKernel<Eigen::half>(int, Eigen::half const*, "
    "Eigen::half const*, Eigen::half*, int)": (
        9, 16, 0, 0, "216,1,1", "1024,1,1", 100.0,
    ),
    "void softmax_warp_forward<__half, __half, float, 10, false>"
    "(__half*, __half const*, int, int, int)": (
        19, 34, 0, 0, "3072,1,1", "128,1,1", 87.5,
    ),
    "void tensorflow::functor::ColumnReduceSimpleKernel<float const*, float*, cub::Sum>"
    "(float const*, float*, int, int, int, cub::Sum)": (
        12, 24, 0, 0, "40,1,1", "128,1,1", 93.75,
    ),
    "void tensorflow::functor::ApplyAdamKernel<float>(int, float*, float*, float*, "
    "float const*, float const*, float const*, float const*, float const*, "
    "float const*, float const*, bool)": (3.1, 22, 0, 0, "20,1,1", "1024,1,1", 100.0),
    "Cast_GPU_DT_FLOAT_DT_HALF_kernel": (2.4, 18, 0, 0, "20,1,1", "256,1,1", 100.0),
}  # fmt: skip

FPROP, DGRAD, WGRAD, HGEMM, HGEMM_T, SGEMM, BN, BN_GRAD, RELU, BIAS, SOFTMAX, REDUCE, \
    ADAM, CAST = KERNELS  # fmt: skip

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long)"
COPY_IN_OPS = tuple(f"IteratorGetNext/_{i}:_Recv" for i in range(4))
COPY_OUT_OP = "loss/Mean/_9:_HostRecv"
COLLECTIVE_OPS = tuple(
    f"allreduce/CollectiveReduceV2_{i}:CollectiveReduceV2" for i in range(4)
)


@dataclass(frozen=True)
class Op:
    """A framework op: its name as recorded, and the kernels that it launches."""

    name: str
    kernels: tuple[str, ...]
    shape: str


def forward_and_backward() -> tuple[Op, ...]:
    """Ops of one step up to the gradients, in launch order."""
    ops = []
    for block in range(BLOCKS):
        scope = f"model/block_{block}"
        shape = f"(half[64,{56 >> min(block // 8, 3)},56,256])"
        ops += [
            Op(f"{scope}/conv/Conv2D:Conv2D", (FPROP,), shape),
            Op(f"{scope}/norm/FusedBatchNormV3:FusedBatchNormV3", (BN, CAST), shape),
            Op(f"{scope}/relu/Relu:Relu", (RELU,), shape),
            Op(f"{scope}/query/MatMul:MatMul", (HGEMM, BIAS), shape),
            Op(f"{scope}/attention/Softmax:Softmax", (SOFTMAX,), shape),
            Op(f"{scope}/dense/MatMul:MatMul", (HGEMM,), shape),
            Op(f"{scope}/dense/BiasAdd:BiasAdd", (BIAS,), shape),
            Op(f"{scope}/add/AddV2:AddV2", (RELU,), shape),
        ]
    ops += [
        Op("loss/logits/MatMul:MatMul", (SGEMM,), "(float[64,1000])"),
        Op("loss/Softmax:Softmax", (SOFTMAX,), "(float[64,1000])"),
        Op("loss/Mean:Mean", (REDUCE,), "(float[])"),
    ]
    for block in reversed(range(BLOCKS)):
        scope = f"gradient_tape/model/block_{block}"
        shape = f"(half[64,{56 >> min(block // 8, 3)},56,256])"
        ops += [
            Op(f"{scope}/dense/MatMul/MatMul:MatMul", (HGEMM,), shape),
            Op(f"{scope}/dense/MatMul/MatMul_1:MatMul", (HGEMM_T, CAST), shape),
            Op(f"{scope}/dense/BiasAddGrad:BiasAddGrad", (REDUCE,), shape),
            Op(f"{scope}/attention/mul:Mul", (RELU,), shape),
            Op(f"{scope}/query/MatMul/MatMul:MatMul", (HGEMM,), shape),
            Op(f"{scope}/query/MatMul/MatMul_1:MatMul", (HGEMM_T, CAST), shape),
            Op(f"{scope}/relu/ReluGrad:ReluGrad", (RELU,), shape),
            Op(
                f"{scope}/norm/FusedBatchNormGradV3:FusedBatchNormGradV3",
                (BN_GRAD, CAST),
                shape,
            ),
            Op(
                f"{scope}/conv/Conv2D/Conv2DBackpropInput:Conv2DBackpropInput",
                (DGRAD,),
                shape,
            ),
            Op(
                f"{scope}/conv/Conv2D/Conv2DBackpropFilter:Conv2DBackpropFilter",
                (WGRAD, CAST),
                shape,
            ),
        ]
    return tuple(ops)


def optimizer() -> tuple[Op, ...]:
    """Ops of one step that apply the gradients, in launch order."""
    ops = []
    for variable in range(OPTIMIZER_VARIABLES):
        name = f"Adam/Adam/update_{variable}"
        ops += [
            Op(f"{name}/Cast:Cast", (CAST,), "(float[256,256])"),
            Op(f"{name}/ResourceApplyAdam:ResourceApplyAdam", (ADAM,), "(resource[])"),
        ]
    return tuple(ops)


def kernel_details(kernel: str) -> str:
    """The text that CUPTI tracers store with a kernel."""
    _, registers, static, dynamic, grid, block, occupancy = KERNELS[kernel]
    return (
        f"regs:{registers} static_shared:{static} dynamic_shared:{dynamic} "
        f"grid:{grid} block:{block} occ_pct:{occupancy:g}"
    )
