"""What a run does in one step, as far as it shows whether two runs do the same."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.columns.stat_values import (
    find_handle,
    numbers_of,
    rows_of_owners,
    rows_with_key,
)
from stepscope.derive.device.activity_classes import activity_classes
from stepscope.derive.device.kernels import kernels, launch_dimensions
from stepscope.derive.host.op_events import host_op_events
from stepscope.derive.host.values import text_codes
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.names.event_kinds import OpCategory
from stepscope.derive.step_windows.windows import windows
from stepscope.derive.steps.chosen import activity_steps, steps
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.unavailable import Unavailable, present

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.host.op_events import HostOpEvents
    from stepscope.derive.profile_data import ProfileData

_SIZES: Final = (
    StatKey.INPUT_DIMS,
    StatKey.INPUT_DIMS_OLD,
    StatKey.SHAPES,
    StatKey.SHAPE,
)
#: The element type before the sizes: other types are no other sizes.
_TYPE: Final = Pattern(r"[a-z]+\d*(?:e\dm\d\w*)?\[")


def operand_shapes(
    profile: ProfileData, host: str, events: NDArray[np.int32]
) -> pl.Series | None:
    """Return the sizes of the operands of some host events, null where unknown.

    Args:
        profile: The run.
        host: Which of its hosts.
        events: Rows of `events`, ascending.

    Returns:
        Texts of the name "sizes", one per event, in which element types are left out;
        None where nothing recorded any.
    """
    stats = profile.table(host, "stats")
    if isinstance(stats, Unavailable) or not len(events):
        return None
    trace = profile.trace(host)
    values = rows_of_owners(stats, "event", events)
    for name in _SIZES:
        found = values.only(values.key == find_handle(trace.strings, name))
        owner, code, texts = text_codes(trace, found)
        if not len(owner):
            continue
        at = np.full(len(events), len(texts))
        at[np.searchsorted(events, owner)] = code
        plain = [_TYPE.sub("[", text) or None for text in texts]
        return pl.Series("sizes", [*plain, None], pl.String)[at]
    return None


def program_inputs(profile: ProfileData) -> dict[str, dict[str, float]] | None:
    """Return the sizes of all inputs of each compiled program, with their number.

    Inputs of the parts of a program count too. None where no program was recorded.
    """
    found: dict[str, Counter[str]] = {}
    for host in profile.hosts:
        table = profile.table(host, "hlo_ops")
        if isinstance(table, Unavailable):
            continue
        inputs = table.filter(
            (pl.col("opcode") == "parameter") & pl.col("shape").is_not_null()
        )
        # One row per input of a program, not per execution.
        for module, shape in inputs.select("module", "shape").iter_rows():
            found.setdefault(module, Counter())[_TYPE.sub("[", shape)] += 1
    return {
        module: {one: float(n) for one, n in sorted(sizes.items())}
        for module, sizes in sorted(found.items())
    } or None


def batch_sizes(profile: ProfileData) -> tuple[int, ...] | None:
    """Return the sizes of batches that stages of the input pipeline name.

    None where no stage names one.
    """
    found: set[int] = set()
    for host in profile.hosts:
        stats = profile.table(host, "stats")
        stages = profile.table(host, "iterators")
        if isinstance(stats, Unavailable) or isinstance(stages, Unavailable):
            continue
        handle = find_handle(profile.trace(host).strings, StatKey.BATCH_SIZE)
        values = rows_with_key(stats, "event", handle)
        events = np.unique(values.owner)
        mine = events[np.isin(events, handles(stages, "event"))]
        numbers, known = numbers_of(values, mine, handle)
        found.update(numbers[known].tolist())
    return tuple(sorted(found)) or None


#: Name → how often in a step.
Counts = dict[str, float]

#: Ops of frameworks; stages of an input pipeline are none of the step's work.
_FRAMEWORKS: Final = (OpCategory.TENSORFLOW, OpCategory.JAX, OpCategory.TORCH)

#: Threads on which tf.data runs the functions of its stages.
_INPUT_THREADS: Final = "tf_data"


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """What a run does in one step (of several batches: for one batch).

    Attributes:
        devices: Name of a device that was used → number of such devices; empty for a
            program without devices.
        processes: Number of processes of the run; of those recorded where the run does
            not say it.
        steps: Number of steps that were measured; 0 without steps.
        step_source: How the steps were found; null without steps.
        confidence: Confidence in the steps, 0 to 1; 0 without steps.
        batches: Mean number of batches of a step; null where not recorded.
        kernels: Kernel → runs; null where no device was looked at.
        launches: Kernel → grid and block → runs; null where they were not recorded.
        ops: Op of the framework → executions; null where none is known.
        shapes: Op → sizes of its operands → executions; null where not recorded.
        program_inputs: Compiled program → sizes of an input → number of such inputs;
            null where no program was recorded.
        batch_sizes: Numbers of items that stages of the input pipeline put into a
            batch; null where none says it.
        copied_bytes: Bytes copied from the host to devices; null where not recorded.
        variables: Sizes of a variable of the model → how many; null where not recorded.
    """

    devices: dict[str, int]
    processes: int
    steps: int
    step_source: str | None
    confidence: float
    batches: float | None
    kernels: Counts | None
    launches: dict[str, Counts] | None
    ops: Counts | None
    shapes: dict[str, Counts] | None
    program_inputs: dict[str, Counts] | None
    batch_sizes: tuple[int, ...] | None
    copied_bytes: float | None
    variables: dict[str, int] | None


class _Measured(Frozen, frozen=True):
    """The measured windows of one host."""

    host: str
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    step_rows: NDArray[np.int64]

    def holds(self, times: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which instants lie in a measured window."""
        at = np.searchsorted(self.starts, times, side="right") - 1
        return (at >= 0) & (times < self.ends[np.maximum(at, 0)])


def work_of(profile: ProfileData) -> Work:
    """Count what the measured steps of all hosts do, for one step or one batch."""
    hosts = _known_hosts(profile)
    count = sum(len(one.starts) for one in hosts)
    batches = _batches_of_hosts(profile, hosts)
    unit = max(count if batches is None else round(batches * count), 1)
    launched = [_launched_kernels(profile, one) for one in hosts]
    ran = [one for one in launched if one is not None]
    shapes, ops = _count_ops(profile, hosts, unit)
    stepped = [profile.derived(one.host, steps) for one in hosts]
    known = [one for one in stepped if not isinstance(one, Unavailable)]
    least = min(known, key=lambda one: one.confidence, default=None)
    rows = pl.concat(ran) if ran else None
    return Work(
        devices=_devices_used(profile),
        processes=_process_count(profile),
        steps=count if least is not None else 0,
        step_source=None if least is None else least.source,
        confidence=0.0 if least is None else least.confidence,
        batches=batches,
        kernels=None if rows is None else _counts_per_unit(rows, "kernel", unit),
        launches=None
        if rows is None
        else _nested_counts(rows, "kernel", "shape", unit),
        ops=_counts_per_unit(rows, "op", unit)
        if ops is None and rows is not None
        else ops,
        shapes=shapes,
        program_inputs=program_inputs(profile),
        batch_sizes=batch_sizes(profile),
        copied_bytes=_bytes_copied(profile, hosts, unit),
        variables=_model_variables(profile),
    )


def kernel_runs(profile: ProfileData) -> dict[tuple[str, str | None], float]:
    """Return how often each kernel of each op runs in a step; None for no op."""
    hosts = _known_hosts(profile)
    count = max(sum(len(one.starts) for one in hosts), 1)
    launched = (_launched_kernels(profile, one) for one in hosts)
    ran = [one for one in launched if one is not None]
    if not ran:
        return {}
    rows = pl.concat(ran).group_by("kernel", "op").agg(pl.col("count").sum())
    return {(kernel, op): n / count for kernel, op, n in rows.iter_rows()}


def _known_hosts(profile: ProfileData) -> list[_Measured]:
    every = (_measured_hosts(profile, host) for host in profile.hosts)
    return [one for one in every if one is not None]


def _measured_hosts(profile: ProfileData, host: str) -> _Measured | None:
    found = profile.derived(host, windows)
    if isinstance(found, Unavailable):
        return None
    rows = found.measured.sort("start_ps")
    step_rows = rows["step_row"].fill_null(-1).cast(pl.Int64).to_numpy()
    return _Measured(host, ints(rows, "start_ps"), ints(rows, "end_ps"), step_rows)


def _batches_of_hosts(profile: ProfileData, hosts: list[_Measured]) -> float | None:
    """Return the mean number of batches of a measured step; None where unknown."""
    counted = []
    for one in hosts:
        found = profile.derived(one.host, steps)
        if isinstance(found, Unavailable):
            return None
        of_steps = found.rows["batches"][one.step_rows[one.step_rows >= 0].tolist()]
        if of_steps.null_count() or not len(of_steps):
            return None
        counted += of_steps.to_list()
    return sum(counted) / len(counted) if counted else None


def _is_in_step(profile: ProfileData, one: _Measured) -> NDArray[np.bool_]:
    """Return which activities belong to a measured step."""
    activity = present(profile.table(one.host, "device_activity"))
    of_step = profile.derived(one.host, activity_steps)
    if isinstance(of_step, Unavailable):
        return one.holds(ints(activity, "start_ps"))
    return np.isin(of_step, one.step_rows[one.step_rows >= 0])


def _launched_kernels(profile: ProfileData, one: _Measured) -> pl.DataFrame | None:
    """Return `kernel`, `op`, `shape` and `count` of the kernels in measured steps."""
    described = profile.derived(one.host, kernels)
    classes = profile.derived(one.host, activity_classes)
    if isinstance(described, Unavailable) or isinstance(classes, Unavailable):
        return None
    inside = _is_in_step(profile, one)
    counts = np.bincount(classes.code[inside], minlength=len(classes.rows))
    return described.rows.select(
        pl.col("kernel_name").alias("kernel"),
        pl.col("op_name").replace("", None).alias("op"),
        pl.concat_str(
            launch_dimensions("grid"), launch_dimensions("block"), separator=" "
        ).alias("shape"),
        pl.Series("count", counts[described.rows["class"].to_numpy()], pl.Int64),
    ).filter(pl.col("count") > 0)


def _counts_per_unit(rows: pl.DataFrame, name: str, unit: int) -> Counts | None:
    """Return how often each name occurs for one unit; None where none is known."""
    known = rows.filter(pl.col(name).is_not_null())
    summed = known.group_by(name).agg(pl.col("count").sum()).sort(name)
    return {one: n / unit for one, n in summed.iter_rows()} or None


def _nested_counts(
    rows: pl.DataFrame, outer: str, inner: str, unit: int
) -> dict[str, Counts] | None:
    known = rows.filter(pl.col(outer).is_not_null() & pl.col(inner).is_not_null())
    summed = known.group_by(outer, inner).agg(pl.col("count").sum()).sort(outer, inner)
    found: dict[str, Counts] = {}
    for one, other, n in summed.iter_rows():
        found.setdefault(one, {})[other] = n / unit
    return found or None


def _count_ops(
    profile: ProfileData, hosts: list[_Measured], unit: int
) -> tuple[dict[str, Counts] | None, Counts | None]:
    """Return the sizes of operands by op, and the ops, of the host's executions."""
    shaped, executed = [], []
    for one in hosts:
        found = profile.derived(one.host, host_op_events)
        if isinstance(found, Unavailable):
            continue
        category = found.ops["category"].to_numpy()
        of_framework = np.isin(category, [int(one) for one in _FRAMEWORKS])
        chosen = of_framework[found.op] & one.holds(found.start_ps)
        chosen &= ~_makes_input(profile, one.host, found)
        names = found.ops["name"][found.op[chosen]]
        executed.append(pl.DataFrame({"op": names}))
        sizes = operand_shapes(profile, one.host, found.event[chosen])
        if sizes is not None:
            executed[-1] = executed[-1].with_columns(sizes)
            shaped.append(executed[-1].select("op", "sizes", pl.lit(1).alias("count")))
    if not any(len(one) for one in executed):
        return None, None
    counted = pl.concat(one.select("op") for one in executed)
    ops = _counts_per_unit(counted.with_columns(pl.lit(1).alias("count")), "op", unit)
    shapes = _nested_counts(pl.concat(shaped), "op", "sizes", unit) if shaped else None
    return shapes, ops


def _makes_input(
    profile: ProfileData, host: str, found: HostOpEvents
) -> NDArray[np.bool_]:
    """Return which executions belong to the input pipeline, by thread and by call."""
    tracks = profile.table(host, "tracks")
    events = profile.table(host, "events")
    stages = profile.table(host, "iterators")
    if isinstance(tracks, Unavailable) or isinstance(events, Unavailable):
        return np.zeros(len(found.event), np.bool_)
    track = handles(events, "track")[found.event]
    pools = tracks["name"].str.contains(_INPUT_THREADS).to_numpy()
    inside = pools[track]
    if isinstance(stages, Unavailable):
        return inside
    of_stage = handles(stages, "track")
    # One round per thread that fetches batches.
    for thread in np.unique(of_stage).tolist():
        calls = stages.filter(pl.Series(of_stage == thread))
        spans = Spans.from_events(ints(calls, "start_ps"), ints(calls, "dur_ps"))
        here = np.flatnonzero(track == thread)
        begins = found.start_ps[here]
        inside[here] |= spans.within(begins, begins + 1) > 0
    return inside


def _devices_used(profile: ProfileData) -> dict[str, int]:
    found: Counter[str] = Counter()
    for host in profile.hosts:
        table = profile.table(host, "devices")
        if not isinstance(table, Unavailable):
            used = table.filter(pl.col("activities") > 0)
            found.update(
                name or kind for name, kind in used.select("name", "type").iter_rows()
            )
    return dict(sorted(found.items()))


def _process_count(profile: ProfileData) -> int:
    stated = [
        table["processes"][0]
        for host in profile.hosts
        if not isinstance(table := profile.table(host, "environment"), Unavailable)
    ]
    return max((one for one in stated if one is not None), default=len(profile.hosts))


def _bytes_copied(
    profile: ProfileData, hosts: list[_Measured], unit: int
) -> float | None:
    total, seen = 0, False
    for one in hosts:
        activity = profile.table(one.host, "device_activity")
        if isinstance(activity, Unavailable):
            continue
        mine = activity.filter(pl.Series(_is_in_step(profile, one)))
        copies = mine.filter(pl.col("kind").cast(pl.String) == "h2d")["bytes"]
        if len(copies) and not copies.null_count():
            seen = True
            total += int(copies.sum())
    return total / unit if seen else None


def _model_variables(profile: ProfileData) -> dict[str, int] | None:
    table = profile.table(profile.hosts[0], "parameters")
    if isinstance(table, Unavailable):
        return None
    # A model's layers, not events.
    names = (
        "×".join(map(str, shape))
        for shape in table["shape"].to_list()
        if shape is not None
    )
    return dict(sorted(Counter(names).items())) or None
