"""Checks of Python, the installed frameworks, and their versions."""

from __future__ import annotations

import platform
import re
import sys
import sysconfig
from typing import TYPE_CHECKING, Final

from stepscope.doctor.check import Check, plain_check, problem_check

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stepscope.doctor.machine import Machine

_PYTHON: Final = "Python"
_FRAMEWORKS: Final = "frameworks"
#: Product and its Python packages; only the first installed package is shown.
_KNOWN: Final = (
    ("TensorFlow", ("tensorflow", "tensorflow-cpu", "tf-nightly")),
    ("Keras", ("keras",)),
    ("JAX", ("jax",)),
    ("PyTorch", ("torch",)),
    ("gRPC", ("grpcio",)),
    ("TensorBoard", ("tensorboard",)),
)
#: JAX's packages for CUDA, whose names contain the CUDA version.
_CUDA_OF_JAX: Final = re.compile(r"jax-cuda(\d+)-(?:plugin|pjrt)")
#: Packages with CUDA for any framework: up to CUDA 12 the CUDA version is in the name,
#: from 13 on it is the package's version.
_CUDA: Final = re.compile(r"nvidia-cuda-(?:runtime|cupti)(?:-cu(\d\d))?")
_OLDEST_CUDA: Final = 10
#: JAX's packages for GPUs and TPUs.
_OF_JAX: Final = re.compile(r"jax-(?:cuda\d+|rocm\d+)-(?:plugin|pjrt)|libtpu")
_NO_GPU_BUILDS: Final = {"tensorflow-cpu": "pip install 'tensorflow[and-cuda]'"}


def python_checks() -> list[Check]:
    """Check the version of Python, and other tools that trace its calls."""
    version = f"{platform.python_implementation()} {platform.python_version()}"
    checks = [plain_check(_PYTHON, "version", f"{version}, {sys.executable}")]
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        fact = (
            "This build has no global interpreter lock; stepscope was not tested on it."
        )
        remedy = "Record with the standard build of the same version."
        checks.append(problem_check(_PYTHON, "build", fact, remedy))
    monitoring = getattr(sys, "monitoring", None)
    holder = None if monitoring is None else monitoring.get_tool(2)
    if sys.getprofile() is not None:
        holder = holder or "a function set by sys.setprofile"
    of_what = _PYTHON, "calls of functions"
    if not holder:
        return [*checks, plain_check(*of_what, "No other tool traces function calls.")]
    fact = f"Another tool traces function calls: {holder}."
    remedy = "Record without that tool, or use stack samples instead of calls."
    return [*checks, problem_check(*of_what, fact, remedy)]


def framework_checks(machine: Machine) -> list[Check]:
    """Check the installed frameworks, and whether they can use a GPU."""
    checks = []
    packages = machine.packages
    has_gpu = bool(machine.find("dev/nvidia[0-9]*"))
    for title, names in _KNOWN:
        installed = next((name for name in names if name in packages), None)
        if installed is not None:
            checks.append(_check_framework(packages, title, installed, has_gpu=has_gpu))
        elif title != "gRPC":
            text = "not installed"
            checks.append(plain_check(_FRAMEWORKS, title, text, state="skip"))
    if "grpcio" not in packages:
        of_tensorflow = any(name in packages for name in _KNOWN[0][1])
        also = ", and TensorFlow uses its default levels" if of_tensorflow else ""
        fact = "not installed: running programs cannot be recorded from outside"
        command = "pip install grpcio"
        checks.append(
            problem_check(_FRAMEWORKS, "gRPC", f"{fact}{also}.", "Install it.", command)
        )
    return checks


def _check_framework(
    packages: Mapping[str, str], title: str, installed: str, *, has_gpu: bool
) -> Check:
    names = [installed]
    if installed == "jax":
        names += sorted(
            name for name in packages if name == "jaxlib" or _OF_JAX.fullmatch(name)
        )
    text = ", ".join(f"{name} {packages[name]}" for name in names)
    command = _NO_GPU_BUILDS.get(installed)
    if installed == "torch" and packages[installed].endswith("+cpu"):
        command = "pip install --force-reinstall torch"
    if command is None or not has_gpu:
        return plain_check(_FRAMEWORKS, title, text)
    return problem_check(
        _FRAMEWORKS,
        title,
        f"{text} is a build without GPU support, but this machine has a GPU.",
        "Install the build for GPUs.",
        command,
        state="fail",
    )


def cuda_major(machine: Machine) -> int | None:
    """Return the CUDA version that the frameworks need; None if unknown.

    A framework's own package has precedence over packages for any framework. If
    upgrades have left several CUDA packages installed, the newest is in use.
    """
    _, _, build = machine.packages.get("torch", "").partition("+cu")
    if build[:2].isdecimal():
        return int(build[:2])
    of_jax = [_CUDA_OF_JAX.fullmatch(name) for name in machine.packages]
    of_any = [
        match[1] or version.partition(".")[0]
        for name, version in machine.packages.items()
        if (match := _CUDA.fullmatch(name))
    ]
    versions = [match[1] for match in of_jax if match] or of_any
    majors = [int(number) for number in versions if number.isdecimal()]
    return max((major for major in majors if major >= _OLDEST_CUDA), default=None)


#: JAX's packages for GPUs, which JAX ignores if their version is not jaxlib's.
_PLUGIN: Final = re.compile(r"jax-(?:cuda\d+|rocm\d+)-(?:plugin|pjrt)")
_TENSORFLOW: Final = ("tensorflow", "tensorflow-cpu")
#: First TensorFlow version whose `tf.keras` is Keras 3.
_WITH_KERAS_3: Final = (2, 16)
_KERAS_3: Final = (3,)


def version_checks(machine: Machine) -> list[Check]:
    """Check the versions of packages that depend on each other."""
    packages = machine.packages
    misfits = dict([*_jax_misfits(packages), *_keras_misfits(packages)])
    of_what = _FRAMEWORKS, "versions"
    if misfits or not ({"jaxlib", "keras"} & packages.keys()):
        remedy = "Install matching versions."
        return [
            problem_check(*of_what, fact, remedy, command, state="fail")
            for fact, command in misfits.items()
        ]
    return [plain_check(*of_what, "The versions of dependent packages match.")]


def _jax_misfits(packages: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    jax, jaxlib = packages.get("jax"), packages.get("jaxlib")
    if jax is None or jaxlib is None:
        return
    if _version_numbers(jaxlib) > _version_numbers(jax):
        fact = f"jaxlib {jaxlib} is newer than jax {jax}: JAX cannot be imported."
        yield fact, "pip install --upgrade jax jaxlib"
        return
    for name, version in sorted(packages.items()):
        same = _version_numbers(version) == _version_numbers(jaxlib)
        if _PLUGIN.fullmatch(name) and not same:
            fact = f"{name} {version} does not match jaxlib {jaxlib}"
            command = f"pip install --upgrade {name}=={jaxlib}"
            yield f"{fact}: JAX does not use the GPU.", command


def _keras_misfits(packages: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    keras = packages.get("keras")
    name = next((package for package in _TENSORFLOW if package in packages), None)
    if keras is None or name is None:
        return
    version = packages[name]
    wants_3 = _version_numbers(version) >= _WITH_KERAS_3
    if wants_3 != (_version_numbers(keras) >= _KERAS_3):
        wanted = "keras>=3" if wants_3 else "keras<3"
        fact = f"{name} {version} needs {wanted}, but keras {keras} is installed."
        yield fact, f"pip install '{wanted}'"


def _version_numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: "0.10.2.dev3" is (0, 10, 2)."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in match[0].split(".")) if match else ()
