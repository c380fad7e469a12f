"""What a remedy says of a recording of Nsight Systems, which has no such tracers.

Remedies speak of the tracers of frameworks. Nsight Systems is told by its own options
what to record, and by ranges (NVTX) what the program does.
"""

from __future__ import annotations

import re
from typing import Final

from stepscope.frozen import Frozen
from stepscope.patterns import Pattern

#: The recorder of such a recording.
NSIGHT: Final = "nsight"

_DEVICE: Final = "`nsys profile --trace=cuda,nvtx`"
_HOST: Final = "`nsys profile --trace=cuda,nvtx,osrt`"


class _Words(Frozen, frozen=True, eq=True):
    """A part of a remedy by which it is recognised, and what to say then.

    Attributes:
        asks: Pattern of what only a framework's profiler understands.
        instead: The sentence.
    """

    asks: str
    instead: str


#: In order: the first that is found decides.
_SENTENCES: Final = (
    _Words(
        r"record_shapes|host tracer level 3",
        "Record shapes with the profiler of the framework where it can "
        "(`record_shapes=True`): Nsight Systems does not.",
    ),
    _Words(
        r"a device tracer that writes this",
        "Record with the profiler of the framework: Nsight Systems does not write "
        "this.",
    ),
    _Words(
        r"load_batch|tf\.data|stages? of (?:the|a) pipeline|call of the pipeline",
        "Put an NVTX range `load_batch` around the fetch of a batch, or run the steps "
        "inside of torch.autograd.profiler.emit_nvtx(), which names the calls of a "
        f"DataLoader, and record with {_DEVICE}.",
    ),
    _Words(
        r"launch calls",
        "Record the calls of CUDA as well: `nsys profile --trace=cuda`, in the process "
        "that launches.",
    ),
    _Words(
        r"[Pp]ython[ _]tracer|samples of functions|program's functions",
        "Put NVTX ranges around what the program does "
        f"(`with torch.cuda.nvtx.range('load'):`), and record with {_HOST}.",
    ),
    _Words(
        r"step_num=|Mark (?:the|each) (?:training )?steps?\b",
        "Put an NVTX range around each step, with the fetch of its batch inside "
        f"(`with torch.cuda.nvtx.range(f'step {{i}}'):`), and record with {_DEVICE}.",
    ),
    _Words(
        r"host tracer level|host level \d|host_tracer_level|with the host tracer",
        "Name the ops by ranges: run the steps inside of "
        f"torch.autograd.profiler.emit_nvtx(), and record with {_DEVICE}.",
    ),
)
_DEVICE_TRACER: Final = Pattern(r"with the device tracer(?: on)?")


def nsight_remedy(remedy: str) -> str:
    """Return what to do instead about a recording of Nsight Systems.

    Args:
        remedy: A sentence; one that holds for every recording comes back as it is.
    """
    for words in _SENTENCES:
        if re.search(words.asks, remedy):
            return words.instead
    return _DEVICE_TRACER.sub(f"with {_DEVICE}", remedy)
