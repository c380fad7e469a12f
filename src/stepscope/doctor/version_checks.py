"""Packages whose versions do not fit each other, so that one does nothing or fails."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from stepscope.doctor.check import Check, fact

if TYPE_CHECKING:
    from stepscope.doctor.machine import Machine

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
