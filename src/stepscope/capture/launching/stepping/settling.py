"""Waiting until devices are done with what the program has asked of them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from stepscope.errors import suppress_faults

if TYPE_CHECKING:
    from collections.abc import Callable


def settle_devices() -> None:
    """Wait for the devices of every framework that the program has imported.

    A framework that cannot be asked, or that must not be at this moment, is not waited
    for.
    """
    for name, settle in _SETTLE.items():
        framework = sys.modules.get(name)
        if framework is not None:
            # The program's framework, in whichever version and state.
            with suppress_faults():
                settle(framework)


def _settle_torch(torch: Any) -> None:
    # To wait while a graph is captured would break the capture.
    if torch.cuda.is_initialized() and not torch.cuda.is_current_stream_capturing():
        torch.cuda.synchronize()


def _settle_tensorflow(tensorflow: Any) -> None:
    if tensorflow.executing_eagerly():
        tensorflow.test.experimental.sync_devices()


def _settle_jax(jax: Any) -> None:
    # Asking for arrays would begin a backend that the program has not begun.
    if sys.modules["jax._src.xla_bridge"]._backends:  # noqa: SLF001 - nothing else says it
        for array in jax.live_arrays():
            # Another thread may have given its memory away.
            with suppress_faults():
                array.block_until_ready()


_SETTLE: Final[dict[str, Callable[[Any], None]]] = {
    "torch": _settle_torch,
    "tensorflow": _settle_tensorflow,
    "jax": _settle_jax,
}
