"""The kernels of planted_kernels.cu as ops of PyTorch, `planted::NAME`."""

import ctypes
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

# No postponed annotations: PyTorch reads those of an op.
import torch

__all__ = ["CHAINS", "KERNELS", "ROWS", "op_of"]

SOURCE = Path(__file__).with_name("planted_kernels.cu")
ROWS = ("thread_per_row", "warp_per_row")
CHAINS = ("few_warps", "many_warps")
#: A fault and the same work without it, in turn; the last one has none.
KERNELS = (
    *("thread_per_row", "warp_per_row"),
    *("conflicts", "padded"),
    *("spills", "registers"),
    *("few_warps", "many_warps"),
    *("few_blocks", "memory_bound"),
    "compute_bound",
)
#: Reads that follow each other in the chains.
READS = 64


def _library() -> ctypes.CDLL:
    """The kernels, compiled for the GPU of this machine."""
    path = Path(tempfile.mkdtemp()) / "planted_kernels.so"
    subprocess.run(
        [
            *("nvcc", "-O3", "-arch=native", "-lineinfo", "-shared"),
            *("-Xcompiler", "-fPIC", "-o", path, SOURCE),
        ],
        check=True,
    )
    return ctypes.CDLL(str(path))


LIBRARY = _library()


def _launch(name: str, given: Any, *numbers: int) -> Any:
    out = torch.empty_like(given)
    status = getattr(LIBRARY, name)(
        ctypes.c_void_p(given.data_ptr()),
        ctypes.c_void_p(out.data_ptr()),
        *map(ctypes.c_int, numbers),
        ctypes.c_void_p(torch.cuda.current_stream().cuda_stream),
    )
    if status:
        raise RuntimeError(f"{name}: error {status} of CUDA")
    return out


def op_of(name: str) -> Callable[[torch.Tensor], torch.Tensor]:
    """The op `planted::NAME`, which takes a contiguous tensor on the GPU.

    `few_warps` and `many_warps` take whole numbers of 32 bit, each the place of the
    next; the others numbers of single precision.
    """

    def run(given: torch.Tensor) -> torch.Tensor:
        if name in ROWS:
            width = given.shape[-1]
            return _launch(name, given, given.numel() // width, width)
        if name in CHAINS:
            return _launch(name, given, given.numel(), READS)
        return _launch(name, given, given.numel())

    return torch.library.custom_op(f"planted::{name}", run, mutates_args=())
