"""Kernel modules as Python runs them where nothing was compiled."""

from __future__ import annotations

import importlib.util
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

CORE = Path(__file__).resolve().parents[3] / "src" / "stepscope" / "_core"
#: Names by which modules of the package know a kernel module → the kernel module.
USERS = {
    "stepscope.xspace.reading.messages.wire": "wire",
    "stepscope.xspace.reading.fill.wire": "wire",
    "stepscope.xspace.reading.fill.kernels": "fill",
    "stepscope.xspace.reading.columns.kernels": "pivot",
    "stepscope.xspace.writing.encode.kernels": "encode",
    "stepscope.xspace.merging.lines.rebase": "rebase",
}


def uncompiled(name: str) -> ModuleType:
    """The kernel module run by Python, which never asks for Cython itself."""
    spec = importlib.util.spec_from_file_location(f"plain_{name}", CORE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_kept = cache(uncompiled)


@contextmanager
def uncompiled_xspace() -> Iterator[None]:
    """Within it, reading and writing profile messages use the uncompiled kernels."""
    with ExitStack() as patches:
        for user, name in USERS.items():
            patches.enter_context(mock.patch(user, _kept(name)))
        yield
