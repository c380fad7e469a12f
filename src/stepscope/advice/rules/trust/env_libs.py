"""`env.libs`: libraries older than the device that they drive.

Definition: docs/advice/env_libs.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.finding import Action, Finding
from stepscope.advice.item import Item
from stepscope.advice.rule import Rule
from stepscope.advice.words import Words
from stepscope.derive.facts.evidence import Fact
from stepscope.derive.facts.recording import version_signals
from stepscope.derive.judging.recorded_devices import HOST_ONLY, device_signals
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.recording import HostVersions
    from stepscope.thresholds import Thresholds

#: Compute capability from which on → first CUDA version whose libraries have kernels
#: for it, as NVIDIA's release notes say; newest first.
_WANTED: Final = (
    ((10, 0), 12080),
    ((9, 0), 12000),
    ((8, 9), 11080),
    ((8, 6), 11010),
    ((8, 0), 11000),
    ((7, 5), 10000),
    ((7, 0), 9000),
)
_ACTIONS: Final = (
    Action(
        cause="runtime",
        framework="any",
        text="Install a build of the framework for a newer CUDA version: its libraries "
        "have kernels for this device.",
    ),
    Action(
        cause="driver",
        framework="any",
        text="Update the driver: the framework's CUDA version is newer, so programs "
        "run in a mode of compatibility.",
    ),
)
_WORDS: Final = Words(
    passed="libraries fit the device",
    texts={
        ("fail", None): (
            (
                (
                    "CUDA {runtime} is older than this generation of devices, which "
                    "{wanted} knows."
                ),
            ),
        ),
        ("fail", "driver"): (
            ("The driver supports CUDA {driver}, and the program uses {runtime}.",),
        ),
        ("pass", None): (("CUDA {runtime} knows this generation of devices.",),),
    },
    causes={"runtime": "an old CUDA version", "driver": "an old driver"},
)
_ITEM: Final = Item(
    id="env.libs",
    stage=0,
    title="libraries are older than the device",
    words=_WORDS,
    pages=("overview_page",),
    confirm="Compare the versions with the release notes of the device's generation.",
    refute="Run once with newer libraries: if the step takes as long, they do not "
    "matter here.",
    actions=_ACTIONS,
)


def evaluate(signals: Signals, _: Thresholds) -> Finding:
    """Compare the version of CUDA with the first one that knows the newest device."""
    if signals.of(device_signals).recorded == "host_only":
        return _ITEM.not_applicable(HOST_ONLY)
    hosts = signals.of(version_signals)
    if isinstance(hosts, Unavailable):
        return _ITEM.cannot_tell(hosts)
    known = {
        host: one
        for host, one in hosts.items()
        if one.runtime is not None and one.newest is not None
    }
    if not known:
        return _ITEM.cannot_tell(_NO_VERSIONS)
    host, found = min(known.items(), key=lambda item: item[1].runtime or 0)
    note = _old(found)
    return _ITEM.finding(
        "pass" if note is None else "fail",
        note="driver" if note == "driver" else None,
        because=() if note is None else (note,),
        devices=(host,),
        facts=_facts(found),
        inputs=("environment", "devices"),
        actions=tuple(one for one in _ACTIONS if one.cause == note),
    )


def _old(found: HostVersions) -> str | None:
    """Return what is too old; None for nothing."""
    wanted = _wanted(found)
    if wanted is not None and (found.runtime or 0) < wanted:
        return "runtime"
    behind = found.driver is not None and found.driver < (found.runtime or 0)
    return "driver" if behind else None


def _wanted(found: HostVersions) -> int | None:
    capability = found.newest or (0, 0)
    return next((version for first, version in _WANTED if capability >= first), None)


def _facts(found: HostVersions) -> tuple[Fact, ...]:
    versions = (
        ("runtime", found.runtime),
        ("driver", found.driver),
        ("wanted", _wanted(found)),
    )
    return tuple(
        Fact(
            name=name,
            value=None if value is None else _number(value),
            unit="ratio",
            note=found.device if name == "wanted" else None,
        )
        for name, value in versions
    )


def _number(version: int) -> float:
    """Return a version as people write it: 12.9 for 12090."""
    minor = version % 1000 // 10
    return float(f"{version // 1000}.{minor}")


_NO_VERSIONS: Final = Unavailable(
    code="NOT_RECORDED",
    reason="The recording does not say which versions of its libraries the program "
    "used, or on what generation of device.",
    remedy="Look on the machine: `nvidia-smi` shows the driver's version, `pip list` "
    "those of the libraries. `stepscope run` notes them on Linux.",
)


RULE: Final = Rule(_ITEM, evaluate, (device_signals, version_signals))
