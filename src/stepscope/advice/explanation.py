"""How a rule reached its verdict: the numbers that it read, and the skipped steps."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final

import msgspec
import polars as pl

from stepscope.advice.checklist import STAGES
from stepscope.advice.finding import Finding
from stepscope.advice.predicted_gains import why_not_replayed
from stepscope.advice.registry import RULES
from stepscope.analysis.results.walk import struct_fields
from stepscope.derive.replay.critical import critical_path
from stepscope.derive.step_windows.flags import LEFT_OUT
from stepscope.derive.step_windows.windows import windows
from stepscope.errors import BadUsage
from stepscope.unavailable import Missing, Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepscope.advice.signals import Signals
    from stepscope.derive.profile_data import ProfileData
    from stepscope.derive.replay.critical import CriticalPath
    from stepscope.derive.run_derivation import RunDerivation

#: Field of an explanation that is null if the gain does not come from a replay.
GAIN_FIELD: Final = "finding.saving_ms.identity_error_percent"

Number = int | float | str | bool | None

#: Maximum number of values shown of a signal, of parts per list, of nesting levels.
_MAX_NUMBERS: Final = 40
_MAX_LIST_PARTS: Final = 4
_DEEPEST: Final = 5


#: Maximum number of ops and of threads listed for the critical path, also in JSON.
_MAX_NAMES: Final = 10


class PathShare(msgspec.Struct, frozen=True, kw_only=True):
    """The time on the critical path of one cause (owner), op or thread.

    Attributes:
        name: Cause, op or thread; null if unknown.
        ms: Time on the critical path of the mean step.
        percent: `ms` as a share of the critical path, which is as long as the steps.
    """

    name: str | None
    ms: float
    percent: float


class StepPath(msgspec.Struct, frozen=True, kw_only=True):
    """The critical path of the steps of one host.

    Attributes:
        host: Name of the host.
        steps: Number of steps whose critical path is known.
        unexplained_percent: Share of event starts on the path that no dependency
            explains; a lower share makes the path more reliable.
        owners: Time on the path by cause, longest first.
        ops: Time by op, kernel or function; the ten longest.
        threads: Time by thread or stream; the ten longest.
    """

    host: str
    steps: int
    unexplained_percent: float
    owners: tuple[PathShare, ...]
    ops: tuple[PathShare, ...]
    threads: tuple[PathShare, ...]


def step_path(profile: ProfileData, host: str) -> StepPath | Unavailable:
    """Return the parts of the critical path of a host's steps."""
    path = profile.derived(host, critical_path)
    tracks = profile.table(host, "tracks")
    if isinstance(path, Unavailable):
        return path
    if isinstance(tracks, Unavailable):
        return tracks
    names = tracks["name"].to_list()
    count = path.rows["window"].n_unique()
    threads = tuple(
        msgspec.structs.replace(share, name=names[int(share.name)])
        for share in _path_shares(path, "track", count)[:_MAX_NAMES]
        if share.name is not None
    )
    return StepPath(
        host=host,
        steps=count,
        unexplained_percent=path.unexplained_percent,
        owners=_path_shares(path, "owner", count),
        ops=_path_shares(path, "name", count)[:_MAX_NAMES],
        threads=threads,
    )


def _path_shares(path: CriticalPath, column: str, count: int) -> tuple[PathShare, ...]:
    shares = path.share(column).with_columns(pl.col(column).cast(pl.String))
    return tuple(
        PathShare(name=name, ms=time / max(count, 1) / PS_PER_MS, percent=percent)
        for name, time, percent in shares.select(
            column, "time_ps", "percent"
        ).iter_rows()
    )


class SignalNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """One group of numbers that a rule reads.

    Attributes:
        name: Name of the signal.
        about: What the signal is, in a sentence.
        numbers: Number or word by name. Names of nested numbers contain dots; the index
            of a list element is in brackets.
        more: Number of values that are not listed.
        unavailable: Why the signal has no numbers; null if it has numbers.
    """

    name: str
    about: str
    numbers: dict[str, Number]
    more: int
    unavailable: Unavailable | None


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """Windows and devices that the numbers of a finding leave out.

    Attributes:
        windows: Number of windows of all hosts.
        judged: Number of judged windows.
        open_end: Number of windows left out because their end is unknown.
        flags: Number of windows left out because of a flag, by flag.
        devices: Devices that the finding also affects, without the judged one.
    """

    windows: int
    judged: int
    open_end: int
    flags: dict[str, int]
    devices: tuple[str, ...]


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """How a rule reached its verdict.

    Attributes:
        run: Name of the run.
        stage: Topic of the rule's stage of the checklist.
        about: What the rule looks for.
        finding: The finding of the rule.
        signals: The numbers that the rule read.
        left_out: Windows and devices that the numbers leave out.
        critical_path: Path of the steps on the finding's host; null if unknown.
        missing: Null fields with their reasons.
    """

    run: str
    stage: str
    about: str
    finding: Finding
    signals: tuple[SignalNumbers, ...]
    left_out: LeftOut
    critical_path: StepPath | None
    missing: tuple[Missing, ...]


def explanation(
    profile: ProfileData, rule: str, findings: Sequence[Finding], signals: Signals
) -> Explanation:
    """Explain the finding of one rule.

    Raises:
        BadUsage: A rule of that name does not exist.
    """
    known = {rule_of.item.id: rule_of for rule_of in RULES}
    if rule not in known:
        raise BadUsage.unknown_name("rule", rule, known)
    (finding,) = (finding for finding in findings if finding.id == rule)
    path = step_path(profile, _host_of_finding(profile, finding))
    missing = {
        "critical_path": path if isinstance(path, Unavailable) else None,
        # The reason is set if the gain is an upper bound that no replay confirmed.
        GAIN_FIELD: why_not_replayed(finding, signals),
    }
    return Explanation(
        run=profile.run,
        stage=STAGES[finding.stage],
        about=known[rule].item.about,
        finding=finding,
        signals=tuple(_signal_numbers(signal, signals) for signal in known[rule].reads),
        left_out=_count_left_out(profile, finding),
        critical_path=None if isinstance(path, Unavailable) else path,
        missing=tuple(
            why.missing_field(field)
            for field, why in missing.items()
            if why is not None
        ),
    )


def _host_of_finding(profile: ProfileData, finding: Finding) -> str:
    """Return the host of the finding's first device, or the run's first host."""
    named = finding.devices[0] if finding.devices else ""
    return next(
        (
            host
            for host in profile.hosts
            if named == host or named.rpartition(":")[0] == host
        ),
        profile.hosts[0],
    )


def _signal_numbers(wanted: RunDerivation[Any], signals: Signals) -> SignalNumbers:
    value = signals.of(wanted)
    text = inspect.getdoc(wanted.function) or ""
    absent = value if isinstance(value, Unavailable) else None
    numbers = {} if absent else dict(_flat_numbers(value, "", 0))
    return SignalNumbers(
        name=wanted.name,
        about=text.partition("\n")[0],
        numbers=dict(list(numbers.items())[:_MAX_NUMBERS]),
        more=max(len(numbers) - _MAX_NUMBERS, 0),
        unavailable=absent,
    )


def _flat_numbers(value: object, name: str, depth: int) -> Iterator[tuple[str, Number]]:
    """Yield the numbers of a value by name, including those of its nested parts."""
    if isinstance(value, Unavailable):
        yield name or "value", f"not known: {value.reason}"
    elif value is None or isinstance(value, int | float | str):
        # A null inside a nested value is not listed.
        if value is not None or depth <= 1:
            yield name or "value", value
    elif depth < _DEEPEST:
        yield from _numbers_of_parts(value, name, depth + 1)


def _numbers_of_parts(
    value: object, name: str, depth: int
) -> Iterator[tuple[str, Number]]:
    if isinstance(value, pl.DataFrame):
        value = value.head(_MAX_LIST_PARTS).to_dicts()
    fields = _named_fields(value)
    if fields is not None:
        for field, part in fields.items():
            yield from _flat_numbers(part, f"{name}.{field}" if name else field, depth)
    elif isinstance(value, list | tuple):
        numbers = all(isinstance(part, int | float) for part in value)
        if numbers and len(value) > _MAX_LIST_PARTS:
            yield from _series_numbers(value, name)
            return
        for index, part in enumerate(value[:_MAX_LIST_PARTS]):
            yield from _flat_numbers(part, f"{name}[{index}]", depth)
        if len(value) > _MAX_LIST_PARTS:
            yield f"{name}.count", len(value)


def _named_fields(value: object) -> dict[str, object] | None:
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    fields = struct_fields(value)
    if fields is None:
        return None
    # A numeric name is only an index, which means nothing to the user.
    return {name: part for name, part in fields.items() if isinstance(name, str)}


def _series_numbers(values: Sequence[float], name: str) -> Iterator[tuple[str, Number]]:
    """Yield the sum of a list if its numbers are times, else the numbers' range."""
    if not any(values):
        return
    if name.rpartition(".")[2].endswith("_ps") or "_ps." in name:
        yield f"{name} (sum of {len(values)})", sum(values)
        return
    yield f"{name} (smallest of {len(values)})", min(values)
    yield f"{name} (largest of {len(values)})", max(values)


def _count_left_out(profile: ProfileData, finding: Finding) -> LeftOut:
    windows_total = judged = open_end = 0
    flags = dict.fromkeys(LEFT_OUT, 0)
    for host in profile.hosts:
        host_windows = profile.derived(host, windows)
        if isinstance(host_windows, Unavailable):
            continue
        used = set(host_windows.measured["start_ps"].to_list())
        left_out = host_windows.rows.filter(~pl.col("start_ps").is_in(list(used)))
        windows_total += len(host_windows.rows)
        judged += len(host_windows.measured)
        open_end += int(left_out["open_end"].sum())
        for flag in flags:
            flags[flag] += int(left_out["flags"].list.contains(flag).sum())
    return LeftOut(
        windows=windows_total,
        judged=judged,
        open_end=open_end,
        flags={flag: n for flag, n in flags.items() if n},
        devices=finding.devices[1:],
    )
