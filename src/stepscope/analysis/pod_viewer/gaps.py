"""Reasons for null fields of the pod viewer."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.analysis.pod_viewer.comparison import ALIKE
from stepscope.analysis.results.tables import null_paths, package_reasons
from stepscope.analysis.steps.rows import present_categories, why_no_category
from stepscope.derive.step_time.owners import CATEGORIES
from stepscope.unavailable import Missing, Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepscope.analysis.pod_viewer.comparison import SlowestWorker
    from stepscope.analysis.pod_viewer.result import PodViewerResult
    from stepscope.analysis.pod_viewer.rows import WorkerCollectives
    from stepscope.analysis.steps.rows import HostSteps

_WHY: Final = package_reasons("pod_viewer")

_OF_COLLECTIVES: Final = (
    *("collective_wait_ms", "collective_transfer_ms", "collective_untold_ms"),
    "waited_for_ms",
)
_OF_DEVICE: Final = ("device", "device_work_ms", "device_step_time_ms")
_PLACES: Final = ("workers", "steps.workers")


def pod_gaps(
    result: PodViewerResult,
    *,
    hosts: Sequence[HostSteps],
    absent: Mapping[str, Unavailable],
    slowest: SlowestWorker | Unavailable,
    why: WorkerCollectives,
) -> list[Missing]:
    """Return the reasons for fields of a result that are null or left out.

    Args:
        absent: Host → why the host could not be analysed.
        slowest: The slowest worker, or why no worker is named.
        why: The run's collectives, with a reason for each host without any.
    """
    missing = [
        reason.missing_field(f"workers[{host}]") for host, reason in absent.items()
    ]
    if isinstance(slowest, Unavailable):
        missing.append(slowest.missing_field("slowest"))
    lacking: dict[str, Missing] = {}
    for host in hosts:
        shown, _ = present_categories(host.rows, host.missing)
        for category in CATEGORIES:
            reason = why_no_category(category, host.missing)
            if category not in shown and reason is not None:
                for place in _PLACES:
                    field = f"{place}.breakdown_ms.{category}"
                    lacking.setdefault(field, reason.missing_field(field))
    missing += list(lacking.values())
    reasons = _worker_reasons(hosts, why) | _step_reasons(result, hosts, slowest)
    sources = {clock.source for clock in result.clocks}
    doubt = "not_checked" if "recorded" in sources else "tied_by_steps"
    doubt = "not_tied" if "none" in sources else doubt
    reasons |= {
        **dict.fromkeys(("clocks.doubt_us", "clocks.bound_us"), _WHY[doubt]),
        "clocks.shift_us": _WHY["not_tied"],
        "clocks.offset_us": _WHY["no_offset"],
        "processes": _WHY["not_said"],
    }
    null = {
        path for name, value in result_parts(result) for path in null_paths(value, name)
    }
    return missing + [
        reason.missing_field(field)
        for field, reason in reasons.items()
        if field in null
    ]


def _no_device(hosts: Sequence[HostSteps]) -> Unavailable | None:
    """Return why no device could be analysed; None if any device could."""
    if any(host.has_device for host in hosts):
        return None
    known = (host.missing.get("collective") for host in hosts)
    return next((reason for reason in known if reason is not None), _WHY["no_device"])


def _worker_reasons(
    hosts: Sequence[HostSteps], why: WorkerCollectives
) -> dict[str, Unavailable]:
    no_device = _no_device(hosts)
    of_waits = (
        _WHY["no_partner"] if len(why.calls) else next(iter(why.absent.values()), None)
    )
    waits = no_device or of_waits or _WHY["no_partner"]
    reasons = {
        "steps.workers.chip_id": no_device or _WHY["no_device"],
        "steps.workers.step": _WHY["no_step_number"],
        "steps.workers.aligned_start_ms": _WHY["not_tied"],
        "slowest.device": no_device or _WHY["no_device"],
        "slowest.waited_for_ms": waits,
        "slowest.cause": _WHY["nowhere_more"],
    }
    for place in _PLACES:
        of_device = no_device or _WHY["no_activity"]
        reasons |= {f"{place}.{field}": waits for field in _OF_COLLECTIVES}
        reasons |= {f"{place}.{field}": of_device for field in _OF_DEVICE}
    return reasons


def _step_reasons(
    result: PodViewerResult,
    hosts: Sequence[HostSteps],
    slowest: SlowestWorker | Unavailable,
) -> dict[str, Unavailable]:
    withheld = isinstance(slowest, Unavailable) and slowest.code == "LOST_EVENTS"
    of_step = _WHY["not_compared"]
    if isinstance(slowest, Unavailable) and (
        withheld or not result.in_lock_step or len(result.workers) == 1
    ):
        of_step = slowest
    of_skew, sources = of_step, {clock.source for clock in result.clocks}
    if result.in_lock_step and "none" in sources:
        of_skew = _WHY["not_tied"]
    elif result.in_lock_step and "steps" in sources:
        of_skew = _WHY["tied_by_steps"]
    alike = (result.in_lock_step and not withheld) and any(
        step.slowest is None and len(step.workers) > 1 for step in result.steps
    )
    unchecked = any(
        step.start_skew_ms is not None and step.start_skew_doubt_ms is None
        for step in result.steps
    )
    named = ("slowest", "slowest_by", "fastest")
    of_imbalance = _no_device(hosts) if len(result.workers) > 1 else None
    return {
        "steps.step": _WHY["no_step_number"],
        "steps.start_skew_doubt_ms": _WHY["not_checked"] if unchecked else of_skew,
        **dict.fromkeys(("start_skew_ms", "steps.start_skew_ms"), of_skew),
        **dict.fromkeys(("imbalance", "steps.imbalance"), of_imbalance or of_step),
        **{f"steps.{field}": ALIKE if alike else of_step for field in named},
        **{f"steps.{end}.device": _WHY["no_device"] for end in ("slowest", "fastest")},
    }


def result_parts(result: PodViewerResult) -> list[tuple[str, object]]:
    """Return a result's fields, with steps merged: a field null in any step is null.

    There may be many thousands of steps and workers, with few fields each.
    """
    steps = _any_null(result.steps)
    steps["workers"] = _any_null(
        [worker for step in result.steps for worker in step.workers]
    )
    parts = [
        (name, getattr(result, name))
        for name in result.__struct_fields__
        if name not in ("steps", "missing", "inputs", "quality", "categories")
    ]
    return [*parts, ("steps", steps)]


def _any_null(rows: Sequence[msgspec.Struct]) -> dict[str, object]:
    """Return field → None if it is null in any row; nested structs field by field."""
    fields: dict[str, object] = {}
    for name in rows[0].__struct_fields__ if rows else ():
        values = list(map(attrgetter(name), rows))
        kinds = set(map(type, values))
        if type(None) in kinds:
            fields[name] = None
        elif any(issubclass(kind, msgspec.Struct) for kind in kinds):
            fields[name] = _any_null(values)
        else:
            fields[name] = ()
    return fields
