"""Compile the kernels of `stepscope._core`: little C, in parallel, and once.

What Cython generates for arrays is most of the C of a kernel and equal for all kernels:
it is in one module, `SHARED`, that they import. A module of the package whose name
begins with `_` is compiled as a part of each kernel that imports it: C can inline
functions only within a module. A kernel that was compiled in place after its source
last changed is used as it is, so that an install after `make`, or a wheel, compiles
nothing again.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from importlib.metadata import version
from itertools import count
from pathlib import Path

from setuptools import Extension
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError

PACKAGE = "stepscope._core"
SHARED = f"{PACKAGE}._shared"
FOLDER = Path("src", *PACKAGE.split("."))
#: What the kernels are made by, besides their sources.
RECIPE = (Path("setup.py"), Path("build_tools", "compiled_kernels.py"))
#: What a kernel takes Cython's names from where it runs uncompiled.
STAND_IN = f"from {PACKAGE}._shim import cython\n"
#: What comes first in a kernel, before Cython itself.
FIRST = "from __future__ import annotations\n"
#: An import of functions that become a part of the kernel.
INLINED = re.compile(
    rf"^from {re.escape(PACKAGE)}\.(_\w+) import (?:\([^)]*\)|.*)$", re.MULTILINE
)
#: No symbols for a debugger, and no warnings about generated C.
FLAGS = ["-O3", "-g0", "-w"]
#: No names of functions that only a debugger reads: half of a file.
LINKER_FLAGS = ["-Wl,-s"] if sys.platform == "linux" else []


def kernels() -> list[Extension]:
    """Every kernel, after the module that they share."""
    sources = sorted(path for path in FOLDER.glob("*.py") if path.name[0] != "_")
    return [
        Extension(
            f"{PACKAGE}.{path.stem}",
            [path.as_posix()],
            extra_compile_args=FLAGS,
            extra_link_args=LINKER_FLAGS,
            # Without a compiler the install still succeeds and runs uncompiled.
            optional=True,
        )
        for path in (FOLDER / "_shared.c", *sources)
    ]


def inlined_in(kernel: Path) -> list[Path]:
    """Return the modules whose functions become a part of a kernel."""
    names = INLINED.findall(_for_cython(kernel)) if kernel.suffix == ".py" else []
    return [kernel.with_name(f"{name}.py") for name in names]


def whole_kernel(kernel: Path, folder: Path) -> Path:
    """Write what Cython compiles: a kernel, and the modules that are a part of it."""
    parts = iter(inlined_in(kernel))
    source = INLINED.sub(
        lambda _: next(parts).read_text("utf-8").partition(STAND_IN)[2],
        _for_cython(kernel),
    )
    whole = folder / kernel.name
    whole.parent.mkdir(parents=True, exist_ok=True)
    whole.write_text(source, encoding="utf-8")
    return whole


def _for_cython(kernel: Path) -> str:
    source = kernel.read_text(encoding="utf-8").replace(STAND_IN, "")
    return source.replace(FIRST, f"{FIRST}\nimport cython\n", 1)


class CompileKernels(build_ext):
    """Compile the kernels that are not compiled yet, and show the progress."""

    extensions: list[Extension]

    def initialize_options(self) -> None:
        """Do as setuptools does, but on all cores."""
        super().initialize_options()
        self.parallel = True

    def build_extensions(self) -> None:
        """Compile what is left to do, or say once why that cannot be."""
        every = self.extensions
        self.extensions = [one for one in every if not self.take(one)]
        try:
            if self.extensions:
                self.compile_all(every)
        except (BaseError, CCompilerError) as error:
            print(f"the kernels run uncompiled, slowly: {error}", file=sys.stderr)
        finally:
            self.extensions = every

    def take(self, kernel: Extension) -> bool:
        """Take a kernel that is compiled in place; return whether there is one."""
        target = Path(self.get_ext_fullpath(kernel.name))
        compiled = FOLDER / target.name
        source = Path(kernel.sources[0])
        made_from = [it for it in (source, *inlined_in(source), *RECIPE) if it.exists()]
        if (
            self.force
            or not compiled.exists()
            or compiled.stat().st_mtime < max(it.stat().st_mtime for it in made_from)
        ):
            return False
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(compiled, target)
        return True

    def compile_all(self, every: list[Extension]) -> None:
        """Compile `extensions`; all kernels where the version of Cython has changed."""
        from Cython.Build import cythonize  # noqa: PLC0415 - only where something is to be compiled

        folder = Path("build", f"cython-{version('Cython')}")
        if not (folder / FOLDER / "_shared.c").exists():
            self.extensions = every
        self.number, self.total = count(1), len(self.extensions)
        self.say(f"compiling {self.total} kernels")
        for kernel in self.extensions:
            if kernel.name != SHARED:
                whole = whole_kernel(Path(kernel.sources[0]), folder / "whole")
                kernel.sources = [whole.as_posix()]
        made = cythonize(
            self.extensions,
            language_level=3,
            build_dir=str(folder),
            quiet=True,
            shared_utility_qualified_name=SHARED,
        )
        for kernel, in_c in zip(self.extensions, made, strict=True):
            kernel.sources = in_c.sources
        # The shared module comes first: without it no kernel can be imported, and where
        # compiling it fails, all others would fail too.
        for kernel in self.extensions:
            if kernel.name == SHARED:
                self.build_extension(kernel)
        self.extensions = [it for it in self.extensions if it.name != SHARED]
        super().build_extensions()
        self.say(f"compiled {self.total} kernels", end="\n")

    def build_extension(self, kernel: Extension) -> None:
        """Say which one it is, and compile it."""
        name = kernel.name.removeprefix(f"{PACKAGE}.").lstrip("_")
        self.say(f"compiling kernels {next(self.number)}/{self.total}: {name}")
        super().build_extension(kernel)

    def say(self, what: str, *, end: str = "") -> None:
        """Write a line that the next one replaces, or each by itself."""
        if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
            print(f"\r\x1b[K{what}", end=end, flush=True)
        else:
            print(what, flush=True)
