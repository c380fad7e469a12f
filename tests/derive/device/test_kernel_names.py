"""What the names of kernels say of their operands and instructions."""

from __future__ import annotations

import pytest

from stepscope.derive.device.kernel_names import (
    DOUBLE,
    NARROW,
    TF32,
    WIDE,
    OperandPrecision,
    TensorCoreEvidence,
    is_plain_kernel,
    is_product_kernel,
    name_uses_tensor_cores,
    plain_name,
    precision_of_name,
)


@pytest.mark.parametrize(
    ("name", "width"),
    [
        ("volta_fp16_s884gemm", NARROW),
        ("ampere_sgemm_32x32", WIDE),
        # The accumulator is float; the operands are not.
        ("ampere_bf16_s1688gemm_bf16_128x128_ldg8_f2f_stages_32x1_nn", NARROW),
        ("sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x16", TF32),
        ("cutlass_80_tensorop_s1688gemm_128x256_16x3_nt_align4_tf32", TF32),
        ("cutlass_80_tensorop_s16816gemm_bf16_256x128", NARROW),
        ("turing_s1688gemm_fp16_128x64", NARROW),
        ("sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n", NARROW),
        ("void cutlass::Kernel<imma_s8_i16832gemm>", NARROW),
        ("volta_dgemm_64x64_nn", DOUBLE),
        ("void gemmk1_kernel<double, 256, 5>", DOUBLE),
        ("void at::native::vectorized<__half>", NARROW),
        ("void at::native::reduce_kernel<float>", WIDE),
        ("volta_scudnn_128x64_relu_interior_nn_v1", WIDE),
        ("Cijk_Ailk_Bljk_BBS_BH_MT256x224x64_MI16x16x16x1", NARROW),
        ("Cijk_Alik_Bljk_HHS_BH_MT128x128x32", NARROW),
        ("Cijk_Ailk_Bljk_SB_MT64x64x16_MI32x32x2x1", WIDE),
        ("Cijk_Ailk_Bljk_DB_MT64x64x16", DOUBLE),
        ("Cijk_Ailk_Bljk_I8II_BH_MT64x64x16", NARROW),
        ("nvjet_hsh_128x256_64x4", NARROW),
        ("nvjet_sss_128x256", TF32),
        ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", NARROW),
        ("nvjet_sm90_qqtst_64x128_128x8_2x1_v_bz_algo2_TNN", NARROW),
        ("nvjet_sm90_ddd_64x64_16x4_v_bz_NNN", DOUBLE),
        ("loop_add_fusion", None),
        # No type, and matrix units: cut operands, but only where the units know them.
        ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x64_32x6_nn>()", TF32),
        ("ampere_s1688gemm_128x128_ldg8_stages_32x1_nn", TF32),
        ("cutlass_tensorop_s1684gemm_64x64_nn", TF32),
        ("turing_s1688gemm_128x128_nn", NARROW),
        ("volta_s884gemm_128x64_nn", NARROW),
        ("turing_h1688gemm_128x128_nn", NARROW),
        ("cutlass_80_tensorop_d884gemm_64x64_16x4_nn", DOUBLE),
        # At this depth only 16-bit operands are multiplied.
        ("ampere_s16816gemm_64x64_nn", NARROW),
        ("cutlass_80_wmma_tensorop_s161616gemm_16x16_32x1_nn_align8", NARROW),
        ("cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_32x1_nn", NARROW),
        ("cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_nn_align1", NARROW),
        ("cutlass3x_sm90_tensorop_s64x128x8gemm_f32_f32_f32_f32_f32_128x128", TF32),
        ("cutlass3x_sm90_tensorop_s64x128x16gemm_f16_f16_f32_void_f16", NARROW),
        ("cutlass_tensorop_s1688dgrad_optimized_tf32_128x128_16x4_nhwc", TF32),
        ("_ZN7cutlass6KernelINS_4conv9MatrixShapeEENS_10tfloat32_tENS_4MmaE", TF32),
        ("sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc", TF32),
        # A trait of cuDNN's kernels: operands of 16 bit, an accumulator of 32 bit.
        (
            "void xmma_cudnn::gemm::kernel<fprop<xmma_cudnn::Ampere_hmma_fp32_traits",
            NARROW,
        ),
        (
            "void xmma_cudnn::gemm::kernel<fprop<xmma_cudnn::Ampere_hmma_tf32_traits",
            TF32,
        ),
        # Attention that emulates 32-bit products by three TF32 products.
        ("fmha_cutlassF_f32_aligned_64x64_rf_sm80(AttentionKernel<float>)", WIDE),
        ("fmha_cutlassB_f16_aligned_64x64_k64_sm80(AttentionKernel<half>)", NARROW),
        # A mangled name repeats types by marks, and hashes the file of a namespace.
        ("_ZN5cudnn11bn_fw_tr_NCHWIffiLi128ELb1EEEvPKT0_S8_S6_PS6_S9_", WIDE),
        ("_ZN9cublasish11splitK_kernILi32ELi16EiffLb0EEEvPKT2_S8_S8_", WIDE),
        ("_ZN2at6native46_GLOBAL__N__97375ef8_19_Norm_cu_71e06ef84normE", None),
        ("_ZN2at6native6kernelI6__halffEEvPKT0_S8_", NARROW),
        # 32-bit operands on vector lanes are not cut.
        ("sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize128x64x8_ffma_align", WIDE),
        ("cudnn_infer_ampere_scudnn_128x64_relu_xregs_large_nn_v1", WIDE),
        ("volta_fp16_scudnn_fp16_128x64_relu_interior_nn_v1", NARROW),
        ("void cudnn::cnn::implicit_convolve_sgemm<float, float, 128>(int)", WIDE),
        ("void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>", WIDE),
        ("void gemv2T_kernel_val<int, int, double, double, double, 128>", DOUBLE),
        ("cudnn_maxwell_gcgemm_64x64_tn_batched", WIDE),
        # Formats of 8 and 4 bits.
        ("bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_sm100f", NARROW),
        ("bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_swiGlu_sm100f", NARROW),
        ("fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausal", NARROW),
        ("void scaled_mm<__nv_fp8_e5m2, float>()", NARROW),
        ("cutlass3x_sm100_bstensorop_s128x128x64gemm_block_scaled_nvfp4", NARROW),
        ("mxfp4_matmul_kernel", NARROW),
        # AMD.
        ("Cijk_Alik_Bljk_F8BS_BH_Bias_SHB_HA_S_SAV_MT256x256x128_MI16x16x1", NARROW),
        ("Cijk_Alik_Bljk_S_MX_B_Bias_HA_S_SAV_UserArgs_MT64x64x32_MI16x16x1", TF32),
        ("Cijk_Ailk_Bljk_S_B_Bias_HA_S_SAV_UserArgs_MT16x16x128_MI16x16x1", WIDE),
        ("Cijk_Alik_Bljk_F4BS_BH_Bias_MT256x256x256_MI16x16x1", NARROW),
        ("igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt256x64x8", NARROW),
        ("igemm_fwd_gtcx2_nhwc_fp32_bx0_ex1_bt256x64x8", WIDE),
        ("naive_conv_packed_fwd_nchw_float_double_float.kd", WIDE),
        # An element of two bytes, whatever it means.
        ("CatArrayBatchedCopy<(anonymous namespace)::OpaqueType<2u>, unsigned", NARROW),
    ],
)
def test_names_tell_the_operands_width(
    name: str, width: OperandPrecision | None
) -> None:
    assert precision_of_name(name) == width


@pytest.mark.parametrize(
    ("capability", "width"),
    [((7, 0), NARROW), ((7, 5), NARROW), ((8, 0), TF32), ((9, 0), TF32), (None, TF32)],
)
def test_units_before_8_0_do_not_cut(
    capability: tuple[int, int] | None, width: OperandPrecision
) -> None:
    assert precision_of_name("tensorop_s1688gemm_128x128", capability) == width


@pytest.mark.parametrize(
    ("name", "uses", "evidence"),
    [
        ("volta_fp16_s884gemm_fp16_128x64", True, TensorCoreEvidence.NAME),
        ("turing_h1688gemm_256x128", True, TensorCoreEvidence.NAME),
        ("sm86_xmma_gemm_f16f16_f16f32_f32", True, TensorCoreEvidence.NAME),
        ("nvjet_hsh_128x256", True, TensorCoreEvidence.NAME),
        ("void flash_fwd_kernel<...>", True, TensorCoreEvidence.NAME),
        ("void flash_bwd_kernel<...>", True, TensorCoreEvidence.NAME_UNCONFIRMED),
        # On vector lanes, whatever the rest of the name says.
        ("sm80_xmma_gemm_f32f32_ffma_aligna4", False, TensorCoreEvidence.NAME),
        (
            "Cijk_Ailk_Bljk_BBS_BH_MT256x224x64_MI16x16x16x1_SN",
            True,
            TensorCoreEvidence.NAME_UNCONFIRMED,
        ),
        ("Cijk_Ailk_Bljk_SB_MT64x64x16_SN", False, TensorCoreEvidence.NAME),
        ("volta_sgemm_128x64_nt", False, TensorCoreEvidence.NAME),
        # Generated names tell nothing, not even by accident of their numbers.
        ("gemm_fusion_dot_16816", None, TensorCoreEvidence.NONE),
        ("triton_poi_fused_add", None, TensorCoreEvidence.NONE),
        ("attn_fwd", None, TensorCoreEvidence.NONE),
        # As the ROCm profiler writes the descriptor of a kernel.
        ("attn_fwd.kd", None, TensorCoreEvidence.NONE),
        ("kernel_unified_attention_3d", None, TensorCoreEvidence.NONE),
        ("_w8a8_block_fp8_matmul", None, TensorCoreEvidence.NONE),
        ("fused_moe_kernel", None, TensorCoreEvidence.NONE),
        # An elementwise kernel of AMD, in spite of its name.
        ("SubTensorOpWithScalar1d.kd", False, TensorCoreEvidence.NAME),
        (
            "void cutlass::device_kernel<flash::FlashAttnFwdSm90<bfloat16_t>>(Params)",
            True,
            TensorCoreEvidence.NAME_UNCONFIRMED,
        ),
        (
            "bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_sm100f",
            True,
            TensorCoreEvidence.NAME_UNCONFIRMED,
        ),
    ],
)
def test_names_tell_matrix_instructions(
    name: str, evidence: TensorCoreEvidence, *, uses: bool | None
) -> None:
    assert name_uses_tensor_cores(name) == (uses, evidence)


@pytest.mark.parametrize(
    "name",
    [
        "volta_sgemm_128x64_nt",
        "ampere_sgemm_32x32_sliced1x4_tn",
        "void gemmSN_TN_kernel<float, 128, 16>",
        "cudnn_infer_ampere_scudnn_128x64_relu_xregs_large_nn_v1",
        "volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1",
        "void cudnn::detail::implicit_convolve_sgemm<float, float, 128>",
        "void cudnn::cnn::wgrad_alg0_engine<float, 512>",
        "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32",
        "turing_fp16_s1688cudnn_fp16_128x128_ldg8_relu",
        "Cijk_Ailk_Bljk_SB_MT64x64x16_SN",
        "miopenSp3AsmConv_v30_3_1_gfx9_fp32_f2x3_stride1.kd",
        "igemm_fwd_gtcx3_nhwc_bf16_bx0",
        "naive_conv_fwd_nchw_float_double_float",
        "nvjet_tst_144x128_64x6_2x1_v_bz_bias_TNN",
        "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2",
        "void pytorch_flash::flash_fwd_kernel<64>",
        "triton_tem_fused_mm_0",
        "void cutlass::device_kernel<flash::FlashAttnFwdSm90<bfloat16_t>>(Params)",
        "void deep_gemm::fp8_gemm_kernel<2048u, 7168u>(float*)",
        "MIOpenConvUniC.kd",
        "Im2d2Col.kd",
        "kernel_grouped_conv_fwd_multiple_abd_xdl_cshuffle<float>",
        "fused_moe_kernel",
    ],
)
def test_names_of_products_and_convolutions_are_known(name: str) -> None:
    assert is_product_kernel(name)
    assert not is_plain_kernel(name)


@pytest.mark.parametrize(
    "name",
    [
        "void at::native::vectorized_elementwise_kernel<4, CUDAFunctor_add<float>>",
        "void cask_cudnn::computeOffsetsKernel<false, false>(Params)",
        "void fbgemm_gpu::permute_2D_data_kernel<true, int, int, float>(int)",
        "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16>",
        "relu_kernel",
        "SubTensorOpWithScalar1d.kd",
        "void causal_conv1d_fwd_kernel<float>",
        "loop_convert_fusion",
        "void at::native::direct_copy_kernel_cuda",
    ],
)
def test_names_of_other_work_are_no_products(name: str) -> None:
    assert not is_product_kernel(name)


def test_a_name_that_tells_nothing_is_neither_a_product_nor_plain() -> None:
    assert not is_product_kernel("my_kernel")
    assert not is_plain_kernel("my_kernel")
    assert is_plain_kernel("void multi_tensor_apply_kernel<AdamFunctor<float>>")
    assert is_plain_kernel("SubTensorOpWithCastTensor1d.kd")


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        (
            "void cutlass::Kernel<cutlass_80_s1688gemm_nn>(Params)",
            "cutlass_80_s1688gemm_nn",
        ),
        ("void gemmSN_TN_kernel<float, 128>(cublasParams<float>)", "gemmSN_TN_kernel"),
        (
            "void at::native::(anonymous namespace)::pool<float>(int)",
            "at::native::pool",
        ),
        (
            "void at::native::<unnamed>::multi_tensor_apply_kernel<A<(int)1>>(T1)",
            "at::native::multi_tensor_apply_kernel",
        ),
        ("unnamed>::gemm<32>(float *)", "gemm"),
        ("volta_sgemm_128x64_nt", "volta_sgemm_128x64_nt"),
    ],
)
def test_sentences_name_a_kernel_without_its_types(name: str, plain: str) -> None:
    assert plain_name(name) == plain
