"""Information in the name of a kernel: precision, matrix instructions, kind of work.

Libraries compose the names of their kernels from a small set of parts. Definition:
docs/definitions/device-work.md#names-of-kernels.
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache
from typing import Final

from stepscope.frozen import Frozen
from stepscope.patterns import UNNAMED_NAMESPACE, Pattern


class OperandPrecision(Frozen, frozen=True, eq=True):
    """Precision of the operands of a kernel.

    Attributes:
        bits: 16 for 16 bits and fewer, 32 for 32 bits and more.
        fp64: Whether the operands have 64 bits; `bits` is then 32.
        tf32: Whether matrix units use only 19 bits of 32-bit operands (TF32).
    """

    bits: int
    fp64: bool = False
    tf32: bool = False


NARROW: Final = OperandPrecision(16)
WIDE: Final = OperandPrecision(32)
DOUBLE: Final = OperandPrecision(32, fp64=True)
TF32: Final = OperandPrecision(32, tf32=True)


class TensorCoreEvidence(IntEnum):
    """Evidence for whether a kernel uses matrix units."""

    NONE = 0
    NAME = 1
    NAME_UNCONFIRMED = 2  # part of a name not yet confirmed by a hardware counter


#: Names of operand types of 16 bits and fewer, in lower case. Wider types are searched
#: later: a mixed-precision kernel also names its wider accumulator.
_NARROW_PARTS: Final = (
    *("half", "fp16", "f16", "float16", "fp8", "f8_", "float8", "f8f6f4", "fp6", "fp4"),
    *("e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "mxf8", "mxf6", "mxf4", "nvf4", "mxe"),
    # The trait of 16-bit matrix instructions names the type of their accumulator.
    *("int8", "_s8_", "i8i8", "hgemm", "hcudnn", "hmma_fp32_traits"),
)
#: Operand types of 16 bits and fewer whose names contain only their size.
_NARROW_SIZES: Final = Pattern(r"opaquetype<[12]u?>|nv_fp[468]")
#: The captured letter is the operands' type; the output types and shapes follow.
_NVJET: Final = Pattern(r"nvjet_(?:sm\d+_)?([a-z])[a-z]+_")
_NVJET_PRECISIONS: Final = {"s": TF32, "c": TF32, "d": DOUBLE, "z": DOUBLE}
#: Name of a matrix instruction: type of the accumulator, then rows, columns and depth.
_INSTRUCTION: Final = Pattern(
    r"(?<![a-z0-9])([shicdz])(884|1684|1688|16168|16816|16832|16864|161616|8816|8832)"
)
#: Shapes of matrix instructions that exist only for TF32 operands.
_CUT_SHAPES: Final = frozenset({"1684", "16168"})
#: Shape of matrix instructions that exist for TF32 and for 16-bit operands.
_EITHER_SHAPE: Final = "1688"
#: Names of kernels for architectures whose matrix units do not support TF32.
_BEFORE_TF32: Final = Pattern(r"volta|turing|(?:cutlass_|sm_?)7[05]")
_FIRST_TF32: Final = (8, 0)
_WIDE_PARTS: Final = (
    *("sgemm", "scudnn", "cgemm", "gcgemm", "fp32", "f32", "float", "opaquetype<4"),
)
_DOUBLE_PARTS: Final = ("dgemm", "zgemm", "f64", "double", "fp64")
#: Prefix of mangled names. Mangled names write a repeated type as a mark (`S8_`) and an
#: unnamed namespace as a hash of its file; both are removed before a search.
_MANGLED: Final = "_Z"
_MARKS: Final = Pattern(
    r"(?<![a-zA-Z])S[0-9A-Z]*_|_GLOBAL__N__[0-9a-f]{8}_\d+_\w+?_cu_[0-9a-f]{8}"
)
#: Template arguments of a mangled name have one letter per type: `f` is a float.
_MANGLED_FLOAT: Final = Pattern(r"I(?:L[a-z]\d+E)*[bcahstijlmxy]*f")

#: Attention kernels that emulate 32-bit products by several TF32 products (3xTF32).
_EMULATES: Final = Pattern(r"fmha_cutlass[fb]_f32")

#: Kernels of AMD's libraries: two index blocks, then the operand's type (`MX`: TF32).
_TENSILE: Final = Pattern(
    r"Cijk_[A-Za-z]+_[A-Za-z]+_(F[468]|B[68]|I8|[A-Z])[A-Z0-9]*(_MX)?"
)
_TENSILE_TYPES: Final = {
    **dict.fromkeys(("H", "B", "F8", "F6", "F4", "B8", "B6", "I8"), NARROW),
    **dict.fromkeys(("S", "C", "I"), WIDE),
    "X": TF32,
    **dict.fromkeys(("D", "Z"), DOUBLE),
}
_TENSILE_MATRIX: Final = Pattern(r"Cijk_.*_MI\d+x\d+", re.IGNORECASE)

#: Parts of lower-case names of kernels that use matrix units. Hardware counters of an
#: H100 confirmed some of them (tests/data/gpu/kernels).
_MATRIX_PARTS: Final = (
    *("16816", "c1688", "conv1x1", "dgrad_1x1_stride_2x2"),
    *("direct_group", "first_layer_wgrad_kernel", "h1688", "h884", "hmma", "i16832"),
    *("i8816", "s884", "s1688", "xmma_gemm", "xmma_implicit_gemm"),
    *("xmma_sparse_conv", "xmma_sparse_gemm", "xmma_warp_specialized_implicit_gemm"),
    *("nvjet", "wgmma", "tensorop", "sm80_xmma", "sm90_xmma", "_tf32", "lstm_tile"),
    *("flash_fwd", "flash_bwd_dq_dk_dv", "fmha_cutlass", "native_sdpa"),
)
_UNCONFIRMED_PARTS: Final = (
    *("gmma", "tcgen05", "utcmma", "sm100_", "flash_bwd", "fmha", "sdpa", "imma"),
    *("umma", "flashattn", "prefillwith", "deep_gemm", "marlin"),
    *("gtcx", "xdlops", "_xdl_", "mfma"),
)
#: Names of products of block-scaled types: operand types, accumulator and tile.
_BLOCK_SCALED: Final = Pattern(r"^(?:bmm|gemm)_\w+_fp32_t\d+x\d+x\d+")
#: Parts of names of kernels that match `_MATRIX_PARTS` but use no matrix instructions,
#: as a hardware counter showed: they use vector lanes or prepare a product.
_WITHOUT: Final = (
    *("_ffma_", "_simt_", "depthwise_convolution", "conv2d_c1_k1", "execute_split_k"),
    *("flash_bwd_convert", "flash_bwd_dot_do_o", "convertqgrad", "bwdograddoto"),
    *("subtensorop",),
)
#: Names of compiler-generated kernels: they describe the program, not instructions.
_SILENT: Final = Pattern(
    r"triton|gemm_fusion"
    r"|^_*(?:[a-z0-9]+_)*(?:attn|attention|matmul|moe)(?:_\w+)?(?:\.kd)?$"
)

#: Parts of lower-case names of kernels that multiply matrices or convolve.
_PRODUCT: Final = Pattern(
    # Names of kernels in libraries for products and convolutions.
    r"(?<!fb)gemm|gemv|nvjet|^bmm_|cijk_[a-z]+_[a-z]+_|marlin|lstm_tile"
    r"|[a-z](?:884|1688|16816)|cudnn_\d|(?:volta|turing|maxwell|ampere|_)[a-z]cudnn"
    # Names of kinds of convolutions and of their algorithms.
    r"|convolve|winograd|wgrad|dgrad|fprop|im\d?d?2col|fft2d_(?:c2r|r2c)"
    r"|sp3asm|naive_conv|gcnasmconv|miopenconv|gridwise_conv|conv_(?:fwd|bwd)"
    r"|conv\d?d?_\w*(?:kernel|direct|implicit)"
    # Names of attention kernels, and of products in compiler-generated kernels.
    r"|flash_(?:fwd|bwd)|flashattn|flash_attn|fmha|sdpa|attn_(?:fwd|bwd)|attention"
    r"|prefillwith|matmul|mm_kernel|triton_mm|fused_moe_kernel|tem_fused_\w*(?:mm|conv)"
)
#: Names of kernels that match `_PRODUCT` but only prepare or finish a product.
_NOT_PRODUCTS: Final = Pattern(
    r"compute\w*offset|gemm_pointers|reshape_and_cache|workspace|splitkreduce"
    r"|reducesplitk|depthwise|populate_rng|attention_?mask|triton_(?:poi|red|per)_"
    r"|convertqgrad|dotokernel|convert_dq|dot_do_o|reduce_wgrad|causal_conv1d"
    r"|^void (?:dot|reduce_1)"
)
#: A generic template with the name of the actual kernel as its argument.
_WRAPPED: Final = Pattern(r"^(?:void )?[\w:]+::Kernel2?<(\w+)>")
#: Names of kernels that compute elementwise, reduce, sort or move elements.
_PLAIN: Final = Pattern(
    r"elementwise|multi_tensor_apply|reduce_kernel|catarray|triton_(?:poi|red|per)_"
    r"|radixsort|devicescan|devicereduce|indexselect|index_kernel|gather_kernel"
    r"|scatter|embedding|layer_?norm|rms_?norm|batch_?norm|softmax|dropout|copy_kernel"
    r"|fillfunctor|arange|eigenmetakernel|applyadam|bias(?:grad)?nch?w|pooling|max_pool"
    r"|nchwtonhwc|nhwctonchw|transpose|quantize|rotary|copybuffer|fillbuffer|bn_(?:bw|fw)_"
    r"|subtensorop|tensortransform"
)


def precision_of_name(
    name: str, capability: tuple[int, int] | None = None
) -> OperandPrecision | None:
    """Return the precision in a kernel's name; None if the name contains none.

    Args:
        capability: Compute capability of the kernel's device, if known. Matrix
            instructions without a type in their names are 16-bit below 8.0, else TF32.
    """
    tensile = _TENSILE.search(name)
    if tensile:
        return TF32 if tensile[2] else _TENSILE_TYPES.get(tensile[1])
    mangled = name.startswith(_MANGLED)
    lowered = (_MARKS.sub(" ", name) if mangled else name).lower()
    nvjet = _NVJET.search(lowered)
    if nvjet:
        return _NVJET_PRECISIONS.get(nvjet[1], NARROW)
    typed = _precision_of_types(name, lowered, capability)
    if typed is None and mangled and _MANGLED_FLOAT.search(name):
        typed = WIDE
    instruction = _INSTRUCTION.search(lowered)
    if instruction and typed not in (NARROW, TF32):
        return _precision_of_instruction(instruction, lowered, capability)
    return typed


def _precision_of_types(
    name: str, lowered: str, capability: tuple[int, int] | None
) -> OperandPrecision | None:
    if any(part in lowered for part in _NARROW_PARTS) or _NARROW_SIZES.search(lowered):
        return NARROW
    if "tf32" in lowered or "tfloat32" in lowered:
        return TF32
    if any(part in lowered for part in _WIDE_PARTS):
        return TF32 if _cuts_operands(name, lowered, capability) else WIDE
    return DOUBLE if any(part in lowered for part in _DOUBLE_PARTS) else None


def _precision_of_instruction(
    match: re.Match[str], lowered: str, capability: tuple[int, int] | None
) -> OperandPrecision:
    accumulator, shape = match[1], match[2]
    if accumulator in "dz":
        return DOUBLE
    if shape in _CUT_SHAPES or accumulator == "c":
        return TF32
    if shape != _EITHER_SHAPE or accumulator != "s":
        return NARROW
    older = capability is not None and capability < _FIRST_TF32
    return NARROW if older or _BEFORE_TF32.search(lowered) else TF32


def _cuts_operands(name: str, lowered: str, capability: tuple[int, int] | None) -> bool:
    if capability is not None and capability < _FIRST_TF32:
        return False
    if any(pattern.search(lowered) for pattern in (_BEFORE_TF32, _EMULATES)) or any(
        part in lowered for part in ("mfma", "xdlops", "gtcx", "ck_tile")
    ):
        return False
    return name_uses_tensor_cores(name)[0] is True


def name_uses_tensor_cores(name: str) -> tuple[bool | None, TensorCoreEvidence]:
    """Return whether a kernel's name shows matrix instructions; None if unknown."""
    lowered = name.lower()
    if _SILENT.search(lowered):
        return None, TensorCoreEvidence.NONE
    if any(part in lowered for part in _WITHOUT):
        return False, TensorCoreEvidence.NAME
    if any(part in lowered for part in _MATRIX_PARTS):
        return True, TensorCoreEvidence.NAME
    if (
        _TENSILE_MATRIX.search(name)
        or _BLOCK_SCALED.search(lowered)
        or any(part in lowered for part in _UNCONFIRMED_PARTS)
    ):
        return True, TensorCoreEvidence.NAME_UNCONFIRMED
    return False, TensorCoreEvidence.NAME


# Several derivations parse the same names; parsing one takes 30 us.
@lru_cache(1024)
def is_product_kernel(name: str) -> bool:
    """Return whether a kernel has the name of a matrix product or convolution."""
    text = name.lower()
    return _PRODUCT.search(text) is not None and _NOT_PRODUCTS.search(text) is None


def is_plain_kernel(name: str) -> bool:
    """Return whether a kernel's name shows that it computes no products."""
    return not is_product_kernel(name) and _PLAIN.search(name.lower()) is not None


def plain_name(name: str) -> str:
    """Return a kernel's name for messages, without arguments and template types."""
    wrapped = _WRAPPED.match(name)
    if wrapped:
        return wrapped[1]
    bare = UNNAMED_NAMESPACE.sub("", name.removeprefix("void "))
    return re.split(r"[<(]", bare, maxsplit=1)[0].strip() or name
