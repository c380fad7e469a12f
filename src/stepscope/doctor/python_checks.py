"""Python, the frameworks that are installed for it, and whether versions fit."""

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
#: Distribution → what it is for; the first of a row that is installed is told.
_KNOWN: Final = (
    ("TensorFlow", ("tensorflow", "tensorflow-cpu", "tf-nightly")),
    ("Keras", ("keras",)),
    ("JAX", ("jax",)),
    ("PyTorch", ("torch",)),
    ("gRPC", ("grpcio",)),
    ("TensorBoard", ("tensorboard",)),
)
#: JAX's code for a CUDA, which says its version.
_CUDA_OF_JAX: Final = re.compile(r"jax-cuda(\d+)-(?:plugin|pjrt)")
#: Distributions that hold CUDA for any framework: until CUDA 12 with the version in
#: their name, from 13 on it is their own.
_CUDA: Final = re.compile(r"nvidia-cuda-(?:runtime|cupti)(?:-cu(\d\d))?")
_OLDEST_CUDA: Final = 10
#: JAX's code for GPUs and TPUs.
_OF_JAX: Final = re.compile(r"jax-(?:cuda\d+|rocm\d+)-(?:plugin|pjrt)|libtpu")
_NO_GPU_BUILDS: Final = {"tensorflow-cpu": "pip install 'tensorflow[and-cuda]'"}


def python_checks() -> list[Check]:
    """Look at this Python: its version, and who else watches its calls."""
    version = f"{platform.python_implementation()} {platform.python_version()}"
    found = [plain_check(_PYTHON, "version", f"{version}, {sys.executable}")]
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        fact = "This build has no global lock; stepscope was never run on one."
        remedy = "Record with the ordinary build of the same version."
        found.append(problem_check(_PYTHON, "build", fact, remedy))
    monitoring = getattr(sys, "monitoring", None)
    holder = None if monitoring is None else monitoring.get_tool(2)
    if sys.getprofile() is not None:
        holder = holder or "a function set by sys.setprofile"
    of_what = _PYTHON, "calls of functions"
    if not holder:
        return [*found, plain_check(*of_what, "No other tool watches them.")]
    fact = f"Another tool watches calls: {holder}."
    remedy = "Record without it, or leave functions to samples."
    return [*found, problem_check(*of_what, fact, remedy)]


def framework_checks(machine: Machine) -> list[Check]:
    """Look at the frameworks that are installed, and whether they can use a GPU."""
    found = []
    packages = machine.packages
    has_gpu = bool(machine.find("dev/nvidia[0-9]*"))
    for title, names in _KNOWN:
        installed = next((name for name in names if name in packages), None)
        if installed is not None:
            found.append(_check_framework(packages, title, installed, has_gpu=has_gpu))
        elif title != "gRPC":
            text = "not installed"
            found.append(plain_check(_FRAMEWORKS, title, text, state="skip"))
    if "grpcio" not in packages:
        of_tensorflow = any(name in packages for name in _KNOWN[0][1])
        also = ", and TensorFlow is recorded at its own levels" if of_tensorflow else ""
        fact = "not installed: running programs cannot be recorded from outside"
        command = "pip install 'stepscope[grpc]'"
        found.append(
            problem_check(_FRAMEWORKS, "gRPC", f"{fact}{also}.", "Install it.", command)
        )
    return found


def _check_framework(
    packages: Mapping[str, str], title: str, installed: str, *, has_gpu: bool
) -> Check:
    names = [installed]
    if installed == "jax":
        # Packages that hold its code.
        names += sorted(
            it for it in packages if it == "jaxlib" or _OF_JAX.fullmatch(it)
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
        f"{text} is a build without GPU, and this machine has one.",
        "Install the build for GPUs.",
        command,
        state="fail",
    )


def cuda_major(machine: Machine) -> int | None:
    """Return the CUDA version that the frameworks bring; None where none does.

    A framework that says it is right. Of several packages of CUDA, as upgrades leave
    them, the newest is in use.
    """
    _, _, build = machine.packages.get("torch", "").partition("+cu")
    if build[:2].isdecimal():
        return int(build[:2])
    of_jax = [_CUDA_OF_JAX.fullmatch(name) for name in machine.packages]
    of_any = [
        found[1] or version.partition(".")[0]
        for name, version in machine.packages.items()
        if (found := _CUDA.fullmatch(name))
    ]
    told = [found[1] for found in of_jax if found] or of_any
    majors = [int(it) for it in told if it.isdecimal()]
    return max((it for it in majors if it >= _OLDEST_CUDA), default=None)


#: JAX's code for a GPU, which it leaves aside where its version is not jaxlib's.
_PLUGIN: Final = re.compile(r"jax-(?:cuda\d+|rocm\d+)-(?:plugin|pjrt)")
_TENSORFLOW: Final = ("tensorflow", "tensorflow-cpu")
#: The first TensorFlow whose `tf.keras` is Keras 3.
_WITH_KERAS_3: Final = (2, 16)
_KERAS_3: Final = (3,)


def version_checks(machine: Machine) -> list[Check]:
    """Compare versions of packages that need each other; nothing where none do."""
    packages = machine.packages
    misfits = dict([*_jax_misfits(packages), *_keras_misfits(packages)])
    of_what = _FRAMEWORKS, "versions"
    if misfits or not ({"jaxlib", "keras"} & packages.keys()):
        remedy = "Install versions that fit."
        return [
            problem_check(*of_what, fact, remedy, command, state="fail")
            for fact, command in misfits.items()
        ]
    return [plain_check(*of_what, "Packages that need each other fit.")]


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
            fact = f"{name} {version} is not of jaxlib's version, {jaxlib}"
            command = f"pip install --upgrade {name}=={jaxlib}"
            yield f"{fact}: JAX does not use the GPU.", command


def _keras_misfits(packages: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    keras = packages.get("keras")
    name = next((it for it in _TENSORFLOW if it in packages), None)
    if keras is None or name is None:
        return
    version = packages[name]
    wants_3 = _version_numbers(version) >= _WITH_KERAS_3
    if wants_3 != (_version_numbers(keras) >= _KERAS_3):
        wanted = "keras>=3" if wants_3 else "keras<3"
        fact = f"{name} {version} needs {wanted}, and keras {keras} is installed."
        yield fact, f"pip install '{wanted}'"


def _version_numbers(version: str) -> tuple[int, ...]:
    """Return the numbers that a version begins with: "0.10.2.dev3" is (0, 10, 2)."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(it) for it in found[0].split(".")) if found else ()
