"""Both forms of a kernel module, and whether a kernel lets other threads run."""

from __future__ import annotations

import importlib
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from tests.support.xspace.kernels import uncompiled

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


@pytest.fixture(scope="session")
def kernel_forms() -> Callable[[str], dict[str, ModuleType]]:
    """`kernel_forms("wire")`: form → module; "compiled" is left out where it is not."""

    def forms(name: str) -> dict[str, ModuleType]:
        found = {"plain": uncompiled(name)}
        installed = importlib.import_module(f"stepscope._core.{name}")
        if not str(installed.__file__).endswith(".py"):
            found["compiled"] = installed
        return found

    return forms


@pytest.fixture(scope="session")
def runs_beside() -> Callable[[Callable[[], object]], bool]:
    """Whether another thread gets the interpreter while some work is under way.

    No switch is forced during the work, so another thread runs only if the work lets
    go of the lock. A busy machine may not get round to it in time: ask repeatedly.
    """

    def runs(work: Callable[[], object]) -> bool:
        gate, seen = threading.Lock(), []
        gate.acquire()

        def wait_and_tell() -> None:
            with gate:
                seen.append(1)

        thread = threading.Thread(target=wait_and_tell)
        interval = sys.getswitchinterval()
        thread.start()
        try:
            sys.setswitchinterval(1000)
            gate.release()
            work()
            return bool(seen)
        finally:
            sys.setswitchinterval(interval)
            thread.join()

    return runs
