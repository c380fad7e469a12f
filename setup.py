"""Declare the compiled kernels; everything else stands in pyproject.toml."""

from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

KERNELS = sorted(
    path
    for path in Path("src/stepscope/_core").glob("*.py")
    if not path.name.startswith("_")
)

setup(
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
    else []
)
