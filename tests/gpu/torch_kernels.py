"""Kernels of many kinds on an NVIDIA GPU, by PyTorch; run alone, each case once."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    Case = Callable[[], object]

__all__ = ["each"]

SIDE = 1024


def ones(*shape: int, dtype: Any = torch.float16) -> Any:
    return torch.randn(*shape, device="cuda").to(dtype)


def tf32(run: Case, *, allowed: bool) -> Case:
    """The case with TF32 switched on or off."""

    def case() -> object:
        torch.backends.cuda.matmul.allow_tf32 = allowed
        torch.backends.cudnn.allow_tf32 = allowed
        return run()

    return case


def product(dtype: Any, rows: int = SIDE, columns: int = SIDE) -> Case:
    one, other = ones(rows, columns, dtype=dtype), ones(columns, rows, dtype=dtype)
    return lambda: one @ other


def products() -> dict[str, Case]:
    """Matrix products at all widths."""
    bytes8 = torch.ones(SIDE, SIDE, device="cuda", dtype=torch.int8)
    narrow = ones(SIDE, SIDE).to(torch.float8_e4m3fn)
    scale = torch.ones((), device="cuda")
    rows = ones(4096, SIDE)
    return {
        "fp32 matmul": tf32(product(torch.float32), allowed=False),
        "tf32 matmul": tf32(product(torch.float32), allowed=True),
        "fp16 matmul": product(torch.float16),
        "fp16 matmul, odd sides": product(torch.float16, 1021, 1019),
        "fp16 matmul, small": product(torch.float16, 64, 64),
        "bf16 matmul": product(torch.bfloat16),
        "fp64 matmul": product(torch.float64),
        "int8 matmul": lambda: torch._int_mm(bytes8, bytes8),
        "fp8 matmul": lambda: torch._scaled_mm(
            narrow, narrow.t(), scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16
        ),
        "fp16 matrix and vector": lambda: rows @ rows[0],
        "fp16 batched matmul": lambda: rows.view(4, SIDE, SIDE) @ rows[:SIDE],
    }


def attention(backend: Any, dtype: Any = torch.float16) -> Case:
    query, key, value = (
        ones(4, 8, 256, 64, dtype=dtype).requires_grad_() for _ in range(3)
    )

    def case() -> object:
        with sdpa_kernel(backend):
            found = nn.functional.scaled_dot_product_attention(query, key, value)
            found.sum().backward()
        return found

    return case


def attentions() -> dict[str, Case]:
    """Attention, forward and backward, by each of its backends."""
    efficient = SDPBackend.EFFICIENT_ATTENTION
    return {
        "flash attention": attention(SDPBackend.FLASH_ATTENTION),
        "memory-efficient attention": attention(efficient),
        "fp32 memory-efficient attention": tf32(
            attention(efficient, torch.float32), allowed=False
        ),
        "cuDNN attention": attention(SDPBackend.CUDNN_ATTENTION),
        "attention by parts": attention(SDPBackend.MATH),
    }


def convolution(dtype: Any, *, channels: int = 64, **given: Any) -> Case:
    layer = nn.Conv2d(channels, 64, device="cuda", dtype=dtype, **given)
    layer = layer.to(memory_format=torch.channels_last)
    images = ones(16, channels, 56, 56, dtype=dtype)
    images = images.to(memory_format=torch.channels_last).requires_grad_()
    return lambda: layer(images).sum().backward()


def convolutions() -> dict[str, Case]:
    """Convolutions, forward and backward."""
    half, single = torch.float16, torch.float32
    return {
        "fp16 convolution": convolution(half, kernel_size=3),
        "fp16 convolution, 1x1": convolution(half, kernel_size=1),
        "fp16 convolution, 3 channels": convolution(
            half, channels=3, kernel_size=7, stride=2
        ),
        "fp16 depthwise convolution": convolution(half, kernel_size=3, groups=64),
        "fp32 convolution": tf32(convolution(single, kernel_size=3), allowed=False),
        "tf32 convolution": tf32(convolution(single, kernel_size=3), allowed=True),
    }


def others() -> dict[str, Case]:
    """What a training step has beside its products."""
    recurrent = nn.LSTM(256, 256, device="cuda", dtype=torch.float16)
    sequence = ones(16, 32, 256)
    rows, table = ones(4096, 1024), nn.Embedding(1000, 256, device="cuda")
    numbers = torch.randint(0, 1000, (4096,), device="cuda")
    weights = [ones(SIDE, 64, dtype=torch.float32).requires_grad_() for _ in range(4)]
    for it in weights:
        it.grad = torch.ones_like(it)
    adam, fused = torch.optim.Adam(weights), torch.optim.Adam(weights, fused=True)
    norm = nn.BatchNorm2d(64, device="cuda")
    images = ones(16, 64, 28, 28, dtype=torch.float32)
    return {
        "fp16 LSTM": lambda: recurrent(sequence),
        "layer norm": lambda: nn.functional.layer_norm(rows, (1024,)),
        "softmax": lambda: rows.softmax(-1),
        "batch norm": lambda: norm(images),
        "embedding": lambda: table(numbers).sum().backward(),
        "adam": adam.step,
        "fused adam": fused.step,
        "sort": lambda: rows.sort(-1),
        "sum": lambda: (rows.sum(), rows.cumsum(0)),
        "dropout": lambda: nn.functional.dropout(rows, 0.5),
        "cross entropy": lambda: nn.functional.cross_entropy(rows, numbers % 1024),
        "concatenate": lambda: torch.cat([rows, rows]),
    }


def generated() -> dict[str, Case]:
    """Kernels that `torch.compile` generates: names of generated code say little."""
    rows = torch.randn(SIDE, SIDE, device="cuda").half()
    beside = torch.compile(lambda it: (it.sin() * 2 + 1).softmax(-1))
    options = {"max_autotune": True, "max_autotune_gemm_backends": "TRITON"}
    product = torch.compile(lambda one, other: one @ other, options=options)
    return {
        "generated elementwise": lambda: beside(rows),
        "generated matmul": lambda: product(rows, rows),
    }


def each(
    run: Callable[[str, Case], object],
    *,
    begin: Callable[[], object],
    end: Callable[[], object],
) -> None:
    """Every case, after a warm-up that loads and tunes what it needs.

    `begin` and `end` are called before the first and after the last.
    """
    torch.manual_seed(20)
    kinds = (products, attentions, convolutions, others, generated)
    working = {}
    for name, case in [it for kind in kinds for it in kind().items()]:
        try:
            for _ in range(2):
                case()
            torch.cuda.synchronize()
        except Exception as error:  # noqa: BLE001 - a version may lack one
            reason = str(error).strip().splitlines()[:1]
            sys.stderr.write(f"left out: {name}: {reason}\n")
            continue
        working[name] = case
    begin()
    for name, case in working.items():
        run(name, case)
    torch.cuda.synchronize()
    end()


if __name__ == "__main__":
    each(
        lambda _, case: case(),
        begin=torch.cuda.profiler.start,
        end=torch.cuda.profiler.stop,
    )
