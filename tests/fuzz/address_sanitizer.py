"""Builds the kernels with AddressSanitizer and runs the fuzzing loop once on them.

    python tests/fuzz/address_sanitizer.py [--cases 20000] [--seed 1]

The guard page of the loop catches reads beyond the file; this catches reads and writes
beyond any array. The sanitized modules are built in a temporary folder, in a copy of
the package, so that nothing here is replaced. Needs gcc with libasan.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build_tools"))
import compiled_kernels  # noqa: E402 - a folder of scripts

KERNELS = ("wire", "fill", "pivot", "encode")
BUILD = """
import sys
from Cython.Build import cythonize
from setuptools import Extension, setup
flags = ["-O1", "-g", "-fsanitize=address", "-fno-omit-frame-pointer"]
setup(
    name="sanitized",
    package_dir={"": "src"},
    packages=[],
    script_args=["-q", "build_ext", "--inplace"],
    ext_modules=cythonize(
        [
            Extension(
                f"stepscope._core.{name}",
                [f"src/stepscope/_core/{name}.py"],
                extra_compile_args=flags,
                extra_link_args=["-fsanitize=address"],
            )
            for name in sys.argv[1:]
        ],
        language_level=3,
    ),
)
"""
CHECK = """
import stepscope._core.wire as wire
assert wire.COMPILED and wire.__file__.startswith({folder!r}), wire.__file__
"""


def main() -> int:
    """Build, run, and hand on the loop's exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return sanitized_loop(Path(folder), cases=options.cases, seed=options.seed)


def sanitized_loop(folder: Path, *, cases: int, seed: int) -> int:
    """Run the loop on a sanitized copy of the package in `folder`."""
    shutil.copytree(
        ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("*.so", "*.c")
    )
    kernels = compiled_kernels.FOLDER
    for name in KERNELS:
        compiled_kernels.whole_kernel(ROOT / kernels / f"{name}.py", folder / kernels)
    subprocess.run([sys.executable, "-c", BUILD, *KERNELS], cwd=folder, check=True)
    library = subprocess.run(
        ["gcc", "-print-file-name=libasan.so"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder / "src"),
        "LD_PRELOAD": library,
        # Python itself leaks at its end; and its own allocator would hide overruns.
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "PYTHONMALLOC": "malloc",
    }
    check = CHECK.format(folder=str(folder))
    subprocess.run([sys.executable, "-c", check], env=environment, check=True)
    loop = [sys.executable, str(ROOT / "tests" / "fuzz" / "fuzz_decoder.py")]
    loop += ["--cases", str(cases), "--seed", str(seed), "--compare-every", "0"]
    return subprocess.run(loop, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
