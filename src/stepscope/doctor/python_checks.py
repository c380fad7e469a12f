"""Python, the frameworks that are installed for it, and whether versions fit."""

from __future__ import annotations

import platform
import re
import sys
import sysconfig
from typing import TYPE_CHECKING, Final

from stepscope.doctor.check import Check, fact

if TYPE_CHECKING:
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
_NO_GPU_BUILDS: Final = {
    "tensorflow-cpu": "pip install 'tensorflow[and-cuda]'",
}


def python_checks() -> list[Check]:
    """Look at this Python: its version, and who else watches its calls."""
    found = [
        fact(
            _PYTHON,
            "version",
            f"{platform.python_implementation()} "
            f"{platform.python_version()}, {sys.executable}",
        )
    ]
    free = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    if free:
        found.append(
            Check(
                group=_PYTHON,
                name="build",
                state="warn",
                fact="This build has no global lock; stepscope was never run on one.",
                remedy="Record with the ordinary build of the same version.",
            )
        )
    monitoring = getattr(sys, "monitoring", None)
    holder = None if monitoring is None else monitoring.get_tool(2)
    profiled = sys.getprofile() is not None
    if holder or profiled:
        who = holder or "a function set by sys.setprofile"
        found.append(
            Check(
                group=_PYTHON,
                name="calls of functions",
                state="warn",
                fact=f"Another tool watches calls: {who}.",
                remedy="Record without it, or leave functions to samples.",
            )
        )
    else:
        found.append(fact(_PYTHON, "calls of functions", "No other tool watches them."))
    return found


def framework_checks(machine: Machine) -> list[Check]:
    """Look at the frameworks that are installed, and whether they can use a GPU."""
    found = []
    for title, names in _KNOWN:
        installed = next((name for name in names if name in machine.packages), None)
        if installed is None:
            found.append(fact(_FRAMEWORKS, title, "not installed", state="skip"))
            continue
        version = machine.packages[installed]
        text = ", ".join((f"{installed} {version}", *_parts(machine, installed)))
        gpu = bool(machine.find("dev/nvidia[0-9]*"))
        without = _without_gpu(installed, version) if gpu else None
        if without is None:
            found.append(fact(_FRAMEWORKS, title, text))
        else:
            found.append(
                Check(
                    group=_FRAMEWORKS,
                    name=title,
                    state="fail",
                    fact=f"{text} is a build without GPU, and this machine has one.",
                    remedy="Install the build for GPUs.",
                    commands=(without,),
                )
            )
    if "grpcio" not in machine.packages:
        of_tensorflow = any(it in machine.packages for it in _KNOWN[0][1])
        also = ", and TensorFlow is recorded at its own levels" if of_tensorflow else ""
        found = [one for one in found if one.name != "gRPC"]
        found.append(
            Check(
                group=_FRAMEWORKS,
                name="gRPC",
                state="warn",
                fact="not installed: running programs cannot be recorded from outside"
                f"{also}.",
                remedy="Install it.",
                commands=("pip install 'stepscope[grpc]'",),
            )
        )
    return found


def _parts(machine: Machine, name: str) -> list[str]:
    """Return the packages that hold JAX's code, with their versions."""
    if name != "jax":
        return []
    return [
        f"{it} {version}"
        for it, version in sorted(machine.packages.items())
        if it == "jaxlib" or _OF_JAX.fullmatch(it)
    ]


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


def _without_gpu(name: str, version: str) -> str | None:
    """Return the command that installs a build for GPUs; None where it is one."""
    if name == "torch" and version.endswith("+cpu"):
        return "pip install --force-reinstall torch"
    return _NO_GPU_BUILDS.get(name)


_GROUP: Final = "frameworks"
_NAME: Final = "versions"
#: JAX's code for a GPU, which it leaves aside where its version is not jaxlib's.
_PLUGIN: Final = re.compile(r"jax-(?:cuda\d+|rocm\d+)-(?:plugin|pjrt)")
_TENSORFLOW: Final = ("tensorflow", "tensorflow-cpu")
#: The first TensorFlow whose `tf.keras` is Keras 3.
_WITH_KERAS_3: Final = (2, 16)
_KERAS_3: Final = (3,)


def version_checks(machine: Machine) -> list[Check]:
    """Compare versions of packages that need each other; nothing where none do."""
    packages = machine.packages
    found = [*_of_jax(machine), *_of_keras(machine)]
    if found or not ({"jaxlib", "keras"} & packages.keys()):
        return found
    return [fact(_GROUP, _NAME, "Packages that need each other fit.")]


def _of_jax(machine: Machine) -> list[Check]:
    jax, jaxlib = machine.packages.get("jax"), machine.packages.get("jaxlib")
    if jax is None or jaxlib is None:
        return []
    if _numbers(jaxlib) > _numbers(jax):
        return [
            _misfit(
                f"jaxlib {jaxlib} is newer than jax {jax}: JAX cannot be imported.",
                "pip install --upgrade jax jaxlib",
            )
        ]
    return [
        _misfit(
            f"{name} {version} is not of jaxlib's version, {jaxlib}: JAX does not use "
            "the GPU.",
            f"pip install --upgrade {name}=={jaxlib}",
        )
        for name, version in sorted(machine.packages.items())
        if _PLUGIN.fullmatch(name) and _numbers(version) != _numbers(jaxlib)
    ]


def _of_keras(machine: Machine) -> list[Check]:
    keras = machine.packages.get("keras")
    name = next((it for it in _TENSORFLOW if it in machine.packages), None)
    if keras is None or name is None:
        return []
    version = machine.packages[name]
    wants_3 = _numbers(version) >= _WITH_KERAS_3
    if wants_3 == (_numbers(keras) >= _KERAS_3):
        return []
    wanted = "keras>=3" if wants_3 else "keras<3"
    return [
        _misfit(
            f"{name} {version} needs {wanted}, and keras {keras} is installed.",
            f"pip install '{wanted}'",
        )
    ]


def _misfit(text: str, command: str) -> Check:
    return Check(
        group=_GROUP,
        name=_NAME,
        state="fail",
        fact=text,
        remedy="Install versions that fit.",
        commands=(command,),
    )


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers that a version begins with: "0.10.2.dev3" is (0, 10, 2)."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(it) for it in found[0].split(".")) if found else ()
