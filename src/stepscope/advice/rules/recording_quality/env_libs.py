"""`env.libs`: libraries older than the device, or slow or wrong together."""

from __future__ import annotations

import re
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from stepscope.advice.catalogue import rule_item
from stepscope.advice.item import rule
from stepscope.derive.facts.recording import version_signals
from stepscope.derive.verdicts.recorded_devices import HOST_ONLY, device_signals

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.item import Combination
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.recording import HostVersions

_ITEM: Final = rule_item("env.libs")

#: Minimum compute capability → first CUDA version whose libraries have kernels for it,
#: from NVIDIA's release notes; newest first.
_WANTED: Final = (
    ((10, 0), 12080),
    ((9, 0), 12000),
    ((8, 9), 11080),
    ((8, 6), 11010),
    ((8, 0), 11000),
    ((7, 5), 10000),
    ((7, 0), 9000),
)


@rule(_ITEM, device_signals, version_signals)
def evaluate(signals: Signals) -> Finding:
    if signals.of(device_signals).recorded == "host_only":
        return _ITEM.not_applicable(HOST_ONLY)
    recorded = signals.needed(version_signals)
    known = [
        (one.runtime, one.newest, host)
        for host, one in recorded.items()
        if one.runtime is not None and one.newest is not None
    ]
    affected = [
        (host, key)
        for key, combination in _ITEM.combinations.items()
        for host, one in recorded.items()
        if _has_combination(one, combination)
    ]
    if not known and not affected:
        has_runtime = any(versions.runtime for versions in recorded.values())
        return _ITEM.cannot_tell("no_generation" if has_runtime else "no_versions")
    hosts, keys = ([pair[column] for pair in affected] for column in (0, 1))
    runtime, capability, host = min(known or [(0, (0, 0), hosts[0])], key=itemgetter(0))
    oldest = recorded[host]
    wanted = next((version for first, version in _WANTED if capability >= first), None)
    note = None
    if known and wanted is not None and runtime < wanted:
        note = "runtime"
    elif oldest.driver is not None and oldest.driver < runtime:
        note = "driver"
    because = (*((note,) if note else ()), *dict.fromkeys(keys))
    if note is None and affected:
        note, host = "combination", hosts[0]
    versions = {"runtime": runtime or None, "driver": oldest.driver, "wanted": wanted}
    return _ITEM.finding(
        "pass" if note is None else "fail",
        note=None if note == "runtime" else note,
        because=because,
        devices=tuple(dict.fromkeys((host, *hosts))),
        facts=(
            *(
                _ITEM.fact(
                    name,
                    # The version number as CUDA writes it: 12.9 for 12090.
                    None
                    if version is None
                    else float(f"{version // 1000}.{version % 1000 // 10}"),
                    note=oldest.device if name == "wanted" else None,
                )
                for name, version in versions.items()
            ),
            _ITEM.fact(
                "combinations",
                len(set(keys)) or None,
                note=_versions_text(recorded[hosts[0]], keys[0]) if affected else None,
            ),
        ),
        inputs=("environment", "devices"),
        actions=_ITEM.actions_for(*because),
    )


def _has_combination(host: HostVersions, combination: Combination) -> bool:
    """Return whether a host has the versions, and an event that they affect."""
    recorded = _version_numbers(host)
    return all(
        first
        <= recorded.get(library, ())
        < (recorded.get(end, ()) if isinstance(end, str) else end)
        for library, (first, end) in combination.versions.items()
    ) and any(re.search(combination.events, name) for name in host.names)


def _version_numbers(host: HostVersions) -> dict[str, tuple[int, ...]]:
    """Return the recorded versions, without labels such as `+cu128`."""
    cuda = {"runtime": host.runtime, "driver": host.driver}
    return {
        **{
            name: tuple(map(int, re.findall(r"\d+", text.partition("+")[0])[:3]))
            for name, text in host.libraries.items()
        },
        **{name: (n // 1000, n % 1000 // 10) for name, n in cuda.items() if n},
        **({} if host.newest is None else {"device": host.newest}),
    }


def _versions_text(host: HostVersions, combination: str) -> str:
    numbers = _version_numbers(host)
    return ", ".join(
        f"{name} {'.'.join(map(str, numbers[name]))}"
        for name in _ITEM.combinations[combination].versions
    )
