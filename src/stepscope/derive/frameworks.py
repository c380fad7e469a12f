"""The frameworks that a program uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.host.function_names import function_names
from stepscope.derive.names.event_kinds import EventFlag, OpCategory
from stepscope.derive.run_derivation import OfHosts, known_hosts, of_run
from stepscope.patterns import Pattern
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    import polars as pl

    from stepscope.derive.host.function_names import FunctionName
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.derive.profile_data import ProfileData

_NAMES: Final = {
    OpCategory.TENSORFLOW: "TensorFlow",
    OpCategory.JAX: "JAX",
    OpCategory.TORCH: "PyTorch",
}
#: Collector of stepscope → framework that it records.
_COLLECTORS: Final = {"tensorflow": "TensorFlow", "jax": "JAX", "torch": "PyTorch"}
#: The folder of a framework in the path of an installed file.
_PACKAGE: Final = Pattern(
    rf"[\\/](?:site|dist)-packages[\\/]({'|'.join(_COLLECTORS)}|keras)[\\/]"
)
#: Framework → pattern of the names of its kernels and of its profiler's events.
_IN_NAMES: Final = {
    "PyTorch": r"\bat::native::|\bc10::|\btriton_(?:poi|red|per)_fused"
    r"|^PyTorch Profiler \(\d+\)$",
    "TensorFlow": r"\btensorflow::",
}
#: Result of `frameworks_used` for a program without a framework.
PLAIN: Final = ("Python",)
#: Minimum share of a framework in all distinct ops; a few names match by chance.
_MIN_OP_SHARE: Final = 0.2


@of_run
def frameworks_used(
    *,
    event_kinds: OfHosts[EventKinds],
    event_types: OfHosts[pl.DataFrame],
    environment: OfHosts[pl.DataFrame],
    profile: ProfileData,
) -> tuple[str, ...]:
    """Return frameworks with a large share of all distinct ops, most frequent first.

    If there are no ops, the evidence is, in this order: names of other events, what
    stepscope recorded, and which functions ran (a short program ends before its
    framework is recorded). If none of these shows a framework, return "Python", or
    nothing if another profiler recorded.
    """
    counts = dict.fromkeys(_NAMES.values(), 0)
    for kinds in known_hosts(event_kinds).values():
        if kinds.has(EventFlag.PJIT).any():
            counts["JAX"] += len(kinds.category)
        by_category = np.bincount(kinds.category, minlength=max(_NAMES) + 1)
        for category, name in _NAMES.items():
            counts[name] += int(by_category[category])
    total = sum(counts.values())
    ranked = sorted(counts, key=lambda name: -counts[name])
    frequent = tuple(
        name for name in ranked if total and counts[name] >= _MIN_OP_SHARE * total
    )
    if frequent:
        return frequent
    # If there are no ops, find frameworks by the names of other events.
    named = dict.fromkeys(
        framework
        for types in known_hosts(event_types).values()
        for framework, pattern in _IN_NAMES.items()
        if types["name"].str.contains(pattern).any()
    )
    return tuple(named) or _recorded_frameworks(environment, profile)


def is_framework_function(name: FunctionName) -> bool:
    """Return whether a function is a framework's internal function for running ops."""
    return bool(name.library) and _PACKAGE.search(name.file or "") is not None


def _recorded_frameworks(
    environments: OfHosts[pl.DataFrame], profile: ProfileData
) -> tuple[str, ...]:
    collectors: set[str] = set()
    for environment in environments.values():
        if isinstance(environment, Unavailable) or not len(environment):
            return ()
        names = environment["collectors"][0]
        if names is None:
            # For recordings of another profiler, frameworks may be missing.
            return ()
        collectors.update(names.split(","))
    known = tuple(name for key, name in _COLLECTORS.items() if key in collectors)
    return known or _frameworks_by_functions(profile) or (PLAIN if collectors else ())


def _frameworks_by_functions(profile: ProfileData) -> tuple[str, ...]:
    """Return the frameworks of which functions ran; imports alone do not count."""
    packages: set[str] = set()
    # Few programs need this check, which takes long if the profile is large.
    of_hosts = {host: profile.derived(host, function_names) for host in profile.hosts}
    for names in known_hosts(of_hosts).values():
        for name in names.names.values():
            package = _PACKAGE.search(name.file or "") if name.library else None
            if package is not None and name.function != "<module>":
                packages.add(package[1])
    return tuple(name for key, name in _COLLECTORS.items() if key in packages)
