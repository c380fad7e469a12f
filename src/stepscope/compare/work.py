"""The work of a run in one step, as evidence that two runs do the same work."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import polars as pl

from stepscope.analysis.ops.hardware import stage_numbers
from stepscope.analysis.results.tool import derived_by_host, host_tables
from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.columns.stat_values import find_handle, rows_of_owners
from stepscope.derive.device.activity_classes import activity_classes
from stepscope.derive.device.kernels import kernels, launch_dimensions
from stepscope.derive.host.op_events import host_op_events
from stepscope.derive.host.values import text_codes
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.names.event_kinds import OpCategory
from stepscope.derive.step_windows.windows import windows, windows_of_times
from stepscope.derive.steps.chosen import activity_steps, steps
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.unavailable import Unavailable, require_available

if TYPE_CHECKING:
    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.host.op_events import HostOpEvents
    from stepscope.derive.profile_data import ProfileData

_SIZES: Final = (
    StatKey.INPUT_DIMS,
    StatKey.INPUT_DIMS_OLD,
    StatKey.SHAPES,
    StatKey.SHAPE,
)
#: The element type before the sizes of an operand; it is removed, not compared.
_TYPE: Final = Pattern(r"[a-z]+\d*(?:e\dm\d\w*)?\[")


def operand_shapes(profile: ProfileData, host: str, events: Int32s) -> pl.Series | None:
    """Return the operand sizes of some host events; None if no sizes were recorded.

    The series `sizes` has one text per event (`events` ascend), without element types.
    """
    stats = profile.table(host, "stats")
    if isinstance(stats, Unavailable) or not len(events):
        return None
    trace = profile.trace(host)
    values = rows_of_owners(stats, "event", events)
    for name in _SIZES:
        key = find_handle(trace.strings, name)
        owner, code, texts = text_codes(trace, values.only(values.key == key))
        if len(owner):
            text_of_event = np.full(len(events), len(texts))
            text_of_event[np.searchsorted(events, owner)] = code
            plain = [_TYPE.sub("[", text) or None for text in texts]
            return pl.Series("sizes", [*plain, None], pl.String)[text_of_event]
    return None


def program_inputs(profile: ProfileData) -> dict[str, dict[str, float]] | None:
    """Return the sizes of all inputs of each compiled program, with their number.

    Inputs of inner computations count too. None if no program was recorded.
    """
    inputs: dict[str, Counter[str]] = {}
    for table in host_tables(profile, "hlo_ops"):
        of_inputs = (pl.col("opcode") == "parameter") & pl.col("shape").is_not_null()
        shapes = table.filter(of_inputs).select("module", "shape")
        # This loop runs once per input of a program, not per execution.
        for module, shape in shapes.iter_rows():
            inputs.setdefault(module, Counter())[_TYPE.sub("[", shape)] += 1
    return {
        module: {size: float(n) for size, n in sorted(sizes.items())}
        for module, sizes in sorted(inputs.items())
    } or None


#: Name → number per step.
Counts = dict[str, float]

#: Categories of framework ops; stages of an input pipeline are not a step's work.
_FRAMEWORKS: Final = (OpCategory.TENSORFLOW, OpCategory.JAX, OpCategory.TORCH)

#: Substring in the names of threads on which tf.data runs the functions of its stages.
_INPUT_THREADS: Final = "tf_data"


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """The work of a run in one step (if a step has several batches: in one batch).

    Attributes:
        devices: Name of a used device → number of such devices; empty without devices.
        processes: Number of processes of the run; if not recorded, the number of
            processes in the recording.
        steps: Number of measured steps; 0 without steps.
        step_source: How the steps were found; null without steps.
        confidence: Confidence in the steps, from 0 to 1; 0 without steps.
        batches: Mean number of batches per step; null if not recorded.
        kernels: Kernel → executions; null if no device could be analysed.
        launches: Kernel → grid and block → executions; null if not recorded.
        ops: Op of the framework → executions; null if no op is known.
        shapes: Op → sizes of its operands → executions; null if not recorded.
        program_inputs: Compiled program → sizes of an input → number of such inputs;
            null if no program was recorded.
        batch_sizes: Batch sizes that stages of the input pipeline recorded; null if no
            stage recorded a batch size.
        copied_bytes: Bytes copied from the host to devices; null if not recorded.
        variables: Size of a variable → number of such variables; null if not recorded.
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


class _HostWindows(Frozen, frozen=True):
    """The measured windows of one host."""

    host: str
    rows: pl.DataFrame
    step_rows: Int64s

    def contains_times(self, times: Int64s) -> Bools:
        """Return which instants are in a measured window."""
        return windows_of_times(self.rows, times) >= 0


def measure_work(profile: ProfileData) -> Work:
    """Count the work of the measured steps of all hosts, per step or per batch."""
    hosts = _windows_of_hosts(profile)
    count = sum(len(measured.rows) for measured in hosts)
    batches = _mean_batches(profile, hosts)
    unit = max(count if batches is None else round(batches * count), 1)
    launches = _kernel_launches(profile, hosts)
    shapes, ops = _count_ops(profile, hosts, unit)
    known, _ = derived_by_host(profile, steps, [measured.host for measured in hosts])
    least_confident = min(
        known.values(), key=lambda detected: detected.confidence, default=None
    )
    environments = host_tables(profile, "environment")
    processes = [table["processes"][0] for table in environments]
    return Work(
        devices=_count_devices(profile),
        processes=max(filter(None, processes), default=len(profile.hosts)),
        steps=count if least_confident is not None else 0,
        step_source=None if least_confident is None else least_confident.source,
        confidence=0.0 if least_confident is None else least_confident.confidence,
        batches=batches,
        kernels=None if launches is None else _count_names(launches, "kernel", unit),
        launches=None
        if launches is None
        else _count_pairs(launches, "kernel", "shape", unit),
        ops=_count_names(launches, "op", unit)
        if ops is None and launches is not None
        else ops,
        shapes=shapes,
        program_inputs=program_inputs(profile),
        batch_sizes=tuple(sorted({*stage_numbers(profile, StatKey.BATCH_SIZE)}))
        or None,
        copied_bytes=_copied_bytes(profile, hosts, unit),
        variables=_count_variables(profile),
    )


def kernel_runs(profile: ProfileData) -> dict[tuple[str, str | None], float]:
    """Return the executions per step of each (kernel, op); op None if unknown."""
    hosts = _windows_of_hosts(profile)
    count = max(sum(len(measured.rows) for measured in hosts), 1)
    launches = _kernel_launches(profile, hosts)
    if launches is None:
        return {}
    rows = launches.group_by("kernel", "op").agg(pl.col("count").sum())
    return {(kernel, op): n / count for kernel, op, n in rows.iter_rows()}


def _windows_of_hosts(profile: ProfileData) -> list[_HostWindows]:
    hosts = []
    for host in profile.hosts:
        host_windows = profile.derived(host, windows)
        if not isinstance(host_windows, Unavailable):
            rows = host_windows.measured.sort("start_ps")
            step_rows = rows["step_row"].fill_null(-1).cast(pl.Int64).to_numpy()
            hosts.append(_HostWindows(host, rows, step_rows))
    return hosts


def _mean_batches(profile: ProfileData, hosts: list[_HostWindows]) -> float | None:
    """Return the mean number of batches per measured step; None if unknown."""
    counts = []
    for measured in hosts:
        host_steps = profile.derived(measured.host, steps)
        if isinstance(host_steps, Unavailable):
            return None
        step_rows = measured.step_rows[measured.step_rows >= 0].tolist()
        batches = host_steps.rows["batches"][step_rows]
        if batches.null_count() or not len(batches):
            return None
        counts += batches.to_list()
    return sum(counts) / len(counts) if counts else None


def _activities_in_steps(profile: ProfileData, measured: _HostWindows) -> Bools:
    activity = require_available(profile.table(measured.host, "device_activity"))
    step_of_activity = profile.derived(measured.host, activity_steps)
    if isinstance(step_of_activity, Unavailable):
        return measured.contains_times(ints(activity, "start_ps"))
    return np.isin(step_of_activity, measured.step_rows[measured.step_rows >= 0])


def _kernel_launches(
    profile: ProfileData, hosts: list[_HostWindows]
) -> pl.DataFrame | None:
    """Return `kernel`, `op`, `shape` and `count` of the kernels in measured steps.

    None if no device could be analysed.
    """
    launches = []
    for measured in hosts:
        described = profile.derived(measured.host, kernels)
        classes = profile.derived(measured.host, activity_classes)
        if isinstance(described, Unavailable) or isinstance(classes, Unavailable):
            continue
        codes = classes.code[_activities_in_steps(profile, measured)]
        counts = np.bincount(codes, minlength=len(classes.rows))
        rows = described.rows.select(
            pl.col("kernel_name").alias("kernel"),
            pl.col("op_name").replace("", None).alias("op"),
            pl.concat_str(
                launch_dimensions("grid"), launch_dimensions("block"), separator=" "
            ).alias("shape"),
            pl.Series("count", counts[described.rows["class"].to_numpy()], pl.Int64),
        )
        launches.append(rows.filter(pl.col("count") > 0))
    return pl.concat(launches) if launches else None


def _count_names(rows: pl.DataFrame, name: str, unit: int) -> Counts | None:
    """Return how often each name occurs per step or batch; None without known names."""
    known = rows.filter(pl.col(name).is_not_null())
    summed = known.group_by(name).agg(pl.col("count").sum()).sort(name)
    return {text: n / unit for text, n in summed.iter_rows()} or None


def _count_pairs(
    rows: pl.DataFrame, outer: str, inner: str, unit: int
) -> dict[str, Counts] | None:
    known = rows.filter(pl.col(outer).is_not_null() & pl.col(inner).is_not_null())
    summed = known.group_by(outer, inner).agg(pl.col("count").sum()).sort(outer, inner)
    counts: dict[str, Counts] = {}
    for name, text, n in summed.iter_rows():
        counts.setdefault(name, {})[text] = n / unit
    return counts or None


def _count_ops(
    profile: ProfileData, hosts: list[_HostWindows], unit: int
) -> tuple[dict[str, Counts] | None, Counts | None]:
    """Count host executions of ops: by op and operand sizes, and by op."""
    shaped, executed = [], []
    for measured in hosts:
        executions = profile.derived(measured.host, host_op_events)
        if isinstance(executions, Unavailable):
            continue
        category = executions.ops["category"].to_numpy()
        of_framework = np.isin(category, [int(framework) for framework in _FRAMEWORKS])
        chosen = of_framework[executions.op] & measured.contains_times(
            executions.start_ps
        )
        chosen &= ~_produces_input(profile, measured.host, executions)
        names = executions.ops["name"][executions.op[chosen]]
        rows = pl.DataFrame({"op": names}).with_columns(pl.lit(1).alias("count"))
        executed.append(rows)
        sizes = operand_shapes(profile, measured.host, executions.event[chosen])
        if sizes is not None:
            shaped.append(rows.with_columns(sizes))
    if not any(len(rows) for rows in executed):
        return None, None
    shapes = _count_pairs(pl.concat(shaped), "op", "sizes", unit) if shaped else None
    return shapes, _count_names(pl.concat(executed), "op", unit)


def _produces_input(profile: ProfileData, host: str, executions: HostOpEvents) -> Bools:
    """Return which op executions belong to the input pipeline, by thread and time."""
    tracks = profile.table(host, "tracks")
    events = profile.table(host, "events")
    stages = profile.table(host, "iterators")
    if isinstance(tracks, Unavailable) or isinstance(events, Unavailable):
        return np.zeros(len(executions.event), np.bool_)
    track = handles(events, "track")[executions.event]
    in_pool = tracks["name"].str.contains(_INPUT_THREADS).to_numpy()[track]
    if isinstance(stages, Unavailable):
        return in_pool
    stage_track = handles(stages, "track")
    # This loop runs once per thread that fetches batches.
    for thread in np.unique(stage_track).tolist():
        calls = stages.filter(pl.Series(stage_track == thread))
        spans = Spans.from_events(ints(calls, "start_ps"), ints(calls, "dur_ps"))
        on_thread = np.flatnonzero(track == thread)
        begins = executions.start_ps[on_thread]
        in_pool[on_thread] |= spans.within(begins, begins + 1) > 0
    return in_pool


def _count_devices(profile: ProfileData) -> dict[str, int]:
    devices: Counter[str] = Counter()
    for table in host_tables(profile, "devices"):
        used = table.filter(pl.col("activities") > 0).select("name", "type")
        devices.update(name or kind for name, kind in used.iter_rows())
    return dict(sorted(devices.items()))


def _copied_bytes(
    profile: ProfileData, hosts: list[_HostWindows], unit: int
) -> float | None:
    totals = []
    for measured in hosts:
        activity = profile.table(measured.host, "device_activity")
        if isinstance(activity, Unavailable):
            continue
        in_steps = pl.Series(_activities_in_steps(profile, measured))
        is_copy = pl.col("kind").cast(pl.String) == "h2d"
        copied = activity.filter(in_steps, is_copy)["bytes"]
        if len(copied) and not copied.null_count():
            totals.append(int(copied.sum()))
    return sum(totals) / unit if totals else None


def _count_variables(profile: ProfileData) -> dict[str, int] | None:
    table = profile.table(profile.hosts[0], "parameters")
    if isinstance(table, Unavailable):
        return None
    # This loop runs once per variable of the model, not per event.
    shapes = table["shape"].drop_nulls().to_list()
    sizes = Counter("×".join(map(str, shape)) for shape in shapes)
    return dict(sorted(sizes.items())) or None
