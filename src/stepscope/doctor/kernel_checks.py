"""Check and notice on whether the kernels, the functions of `_core`, are compiled."""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Final

from stepscope.doctor.check import Check, plain_check, problem_check

#: Source of the factor: docs/benchmarks.md, "Without a compiler".
_PROBLEM: Final = "not compiled: a report takes up to 15 times as long."
_REMEDY: Final = (
    "Install a C compiler and Python's headers, then install stepscope again (in a "
    "checkout: make core)."
)
_FOLDER: Final = Path(__file__).parents[1] / "_core"


def kernel_checks(folder: Path = _FOLDER) -> list[Check]:
    """Check whether Python finds a compiled version of each kernel of `_core`."""
    sources = [path for path in folder.glob("*.py") if path.name[0] != "_"]
    # Python prefers a file with one of these suffixes to the source.
    uncompiled = [
        path
        for path in sources
        if not any(path.with_suffix(end).exists() for end in EXTENSION_SUFFIXES)
    ]
    of_what = "Python", "kernels of stepscope"
    if not uncompiled:
        return [plain_check(*of_what, "compiled")]
    fact = ("" if uncompiled == sources else f"{len(uncompiled)} are ") + _PROBLEM
    command = "apt-get install gcc python3-dev"
    return [problem_check(*of_what, fact, _REMEDY, command)]


def uncompiled_notice() -> str | None:
    """Return a one-line notice for the user; None if all kernels are compiled."""
    (check,) = kernel_checks()
    if check.remedy is None:
        return None
    return f"Kernels of this installation: {check.fact} {check.remedy}"
