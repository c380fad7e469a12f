"""Losses of a PyTorch program's backward passes, noted without waiting for a device."""

from __future__ import annotations

import atexit
import functools
import sys
from typing import TYPE_CHECKING, Any, Final

from stepscope.errors import NO_FRAME, suppress_faults

if TYPE_CHECKING:
    from collections.abc import Callable

#: Losses that are kept; more are not needed to compare two curves.
_MAX_LOSSES: Final = 500
#: Losses after which those before are written: reading one waits for its device.
_WRITTEN_AT_ONCE: Final = 20


def watch_losses(write: Callable[[str, object], None]) -> None:
    """Write the scalars on which the program calls `backward`, in order."""
    tensor: Any = sys.modules["torch"].Tensor
    backward = tensor.backward
    kept: list[Any] = []
    count = 0

    def write_kept() -> None:
        with suppress_faults():
            for loss in kept:
                write("loss", float(loss))
        kept.clear()

    @functools.wraps(backward)
    def backward_and_keep(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal count
        if count < _MAX_LOSSES and self.numel() == 1:
            count += 1
            kept.append(self.detach())
            if len(kept) >= _WRITTEN_AT_ONCE:
                write_kept()
        with NO_FRAME:
            return backward(self, *args, **kwargs)

    tensor.backward = backward_and_keep
    atexit.register(write_kept)
