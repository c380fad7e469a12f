"""Declare the compiled kernels and the page; all else stands in pyproject.toml."""

import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_py import build_py

sys.path.insert(0, str(Path("build_tools").resolve()))
import web_page

KERNELS = sorted(
    path
    for path in Path("src/stepscope/_core").glob("*.py")
    if not path.name.startswith("_")
)


class BuildWithPage(build_py):
    """Build the page before the package's files are counted."""

    def run(self) -> None:
        """Build the page, then what setuptools builds."""
        web_page.build()
        # setuptools may have listed the files before the page was there.
        self.__dict__.pop("data_files", None)
        super().run()


setup(
    cmdclass={"build_py": BuildWithPage},
    ext_modules=cythonize(
        [
            Extension(
                f"stepscope._core.{path.stem}",
                [str(path)],
                extra_compile_args=["-O3"],
                # Without a compiler the install still succeeds and runs uncompiled.
                optional=True,
            )
            for path in KERNELS
        ],
        language_level=3,
        build_dir="build/cython",
    )
    if KERNELS
    else [],
)
