"""What a framework's own profiler says it saw: counted without any of our readers."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl
from tests.support.xspace.proto import values_of_message

from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from stepscope.derive.profile_data import ProfileData

__all__ = ["HOST_OPS", "Seen", "Sums", "averages", "ours", "own"]

#: Group → (category in PyTorch's trace, value of a CUPTI event, kinds in our table).
GROUPS = {
    "kernels": ("kernel", "kernel_details", ("kernel", "collective")),
    "copies": (
        "gpu_memcpy",
        "memcpy_details",
        ("h2d", "d2h", "p2p_copy", "local_copy"),
    ),
    "fills": ("gpu_memset", "memset_details", ("memset",)),
}
HOST_OPS = "host ops"


class Sums(NamedTuple):
    """How often, and how long together."""

    count: int
    total_ns: float


#: Group → name → sums.
Seen = dict[str, dict[str, Sums]]


def _added(rows: Iterable[tuple[str, str, float]]) -> Seen:
    """Group, name and length in ns of each event, added up."""
    counts: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for group, name, length_ns in rows:
        counts[group][name].append(length_ns)
    return {
        group: {name: Sums(len(it), sum(it)) for name, it in names.items()}
        for group, names in counts.items()
    }


def own(path: Path) -> Seen:
    """What the file says that the framework's profiler handed over."""
    if path.suffix == ".json":
        return _added(_of_trace(json.loads(path.read_text("utf-8"))))
    return _added(_of_message(values_of_message(path.read_bytes())))


def _of_trace(trace: dict[str, Any]) -> Iterable[tuple[str, str, float]]:
    groups = {category: group for group, (category, _, _) in GROUPS.items()}
    groups["cpu_op"] = HOST_OPS
    for event in trace["traceEvents"]:
        group = groups.get(event.get("cat", ""))
        # Annotations that we hand on; what we wrote of them stands under their names.
        ours = event["name"].startswith("stepscope.")
        if group is not None and event.get("ph") == "X" and not ours:
            yield group, event["name"], event["dur"] * 1000


def _of_message(space: dict[str, Any]) -> Iterable[tuple[str, str, float]]:
    details = {detail: group for group, (_, detail, _) in GROUPS.items()}
    for plane in space["planes"]:
        on_device = plane["name"].startswith("/device:")
        if not on_device and plane["name"] != "/host:CPU":
            continue
        for line in plane["lines"]:
            for type_id, _, dur_ps, _, stats in line["events"]:
                name = plane["types"].get(type_id, {}).get("name", "")
                found = {key for key, _, _ in stats} & set(details)
                if on_device and found:
                    yield details[found.pop()], name, dur_ps / 1000
                elif not on_device:
                    yield HOST_OPS, name, dur_ps / 1000


def ours(profile: ProfileData, *, host_ops: Iterable[str]) -> Seen:
    """What our tables hold: device activity, and host events of the names given."""
    (host,) = profile.hosts
    trace = profile.trace(host)
    names = trace.table("event_types")["name"]
    rows: list[tuple[str, str, float]] = []
    activity = trace.table("device_activity")
    if not isinstance(activity, Unavailable):
        groups = {
            kind: group for group, (_, _, kinds) in GROUPS.items() for kind in kinds
        }
        kinds = activity["kind"].cast(pl.String).replace_strict(groups, default=None)
        types, lengths = names.gather(activity["type"]), activity["dur_ps"] / 1000
        rows += [row for row in zip(kinds, types, lengths, strict=True) if row[0]]
    events = trace.table("events")
    on_host = trace.table("tracks")["device"].is_null().gather(events["track"])
    events = events.with_columns(names.gather(events["type"]).alias("name")).filter(
        on_host & pl.col("name").is_in(list(host_ops))
    )
    rows += [
        (HOST_OPS, name, dur_ps / 1000)
        for name, dur_ps in events.select("name", "dur_ps").iter_rows()
    ]
    return _added(rows)


def averages(path: Path) -> Seen:
    """PyTorch's key averages of kernels; empty where none ran.

    Those of host ops are not comparable: an op that is the only child of one with its
    own name is not counted in them.
    """
    found: dict[str, Sums] = {}
    for row in json.loads(path.read_text("utf-8")):
        name = row["name"]
        if row["on_device"] and not name.startswith(("Memcpy", "Memset")):
            before = found.get(name, Sums(0, 0.0))
            found[name] = Sums(
                before.count + row["count"], before.total_ns + row["device_us"] * 1000
            )
    return {"kernels": found} if found else {}
