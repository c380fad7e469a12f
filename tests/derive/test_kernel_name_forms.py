"""One kernel under the names that several tools give it."""

from __future__ import annotations

import pytest

from stepscope.derive.device.measured_kernels import name_forms


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("sgemm(float)", "sgemm(float)", "whole"),
        ("void  f<int>(A, B)", "void f<int>(A, B)", "whole"),
        (
            "void at::k<512, 1, float>(Op)",
            "at::k<(int)512, (int)1, float>",
            "signature",
        ),
        (
            "void k<4u, true>(int)",
            "void k<(unsigned int)4, (bool)true>(int)",
            "signature",
        ),
        ("void a::(anonymous namespace)::k<2>(int)", "void a::k<2>(int)", "signature"),
        ("void <unnamed>::gemm<32>(int)", "void unnamed>::gemm<32>(int)", "signature"),
        ("void at::native::k<4, F<int> >(int)", "k", "base"),
        ("ns::k<std::array<char*, 3ul> >(int, G<(A)2>)", "void k(float)", "base"),
        ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NTT", "nvjet_sm90_tst", ""),
        ("gemm_tiled_kernel", "gemm_naive_kernel", ""),
    ],
)
def test_names_are_alike_up_to_a_form(one: str, other: str, alike: str) -> None:
    forms = [name_forms(one), name_forms(other)]
    equal = [
        kind
        for kind in forms[0]._fields
        if len({getattr(it, kind) for it in forms}) == 1
    ]
    assert (equal or [""])[0] == alike


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("unnamed>::saxpy_kernel(float, const float *, float *, int)", "saxpy_kernel"),
        ("void cutlass::Kernel2<a::b<c> >(typename T::Params)", "Kernel2"),
        ("triton_poi_fused_add_0d1d2", "triton_poi_fused_add_0d1d2"),
        ("f<<<(", "f"),
        (">>>", ">>>"),
        ("", ""),
    ],
)
def test_the_base_is_the_functions_own_name(name: str, base: str) -> None:
    assert name_forms(name).base == base
