"""`env.libs`: libraries older than the device that they use."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Final

from stepscope.advice.catalogue import rule_item
from stepscope.advice.item import rule
from stepscope.derive.facts.recording import version_signals
from stepscope.derive.verdicts.recorded_devices import HOST_ONLY, device_signals

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals

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
    if not known:
        has_runtime = any(versions.runtime for versions in recorded.values())
        return _ITEM.cannot_tell("no_generation" if has_runtime else "no_versions")
    runtime, capability, host = min(known, key=itemgetter(0))
    oldest = recorded[host]
    wanted = next((version for first, version in _WANTED if capability >= first), None)
    note = None
    if wanted is not None and runtime < wanted:
        note = "runtime"
    elif oldest.driver is not None and oldest.driver < runtime:
        note = "driver"
    versions = {"runtime": runtime, "driver": oldest.driver, "wanted": wanted}
    return _ITEM.finding(
        "pass" if note is None else "fail",
        note="driver" if note == "driver" else None,
        because=() if note is None else (note,),
        devices=(host,),
        facts=tuple(
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
        inputs=("environment", "devices"),
        actions=_ITEM.actions_for(note),
    )
